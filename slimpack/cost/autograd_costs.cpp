#include "slimpack/cost/autograd_costs.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

const KeptGraph& AutogradLayer::kept(Recompute recompute) const {
  SLIMPACK_CHECK(recompute == Recompute::kNothing || recompute == Recompute::kElementwise,
                 "no graph is kept of \"{}\"", to_string(recompute));
  return recompute == Recompute::kElementwise ? elementwise : whole;
}

double sum_over(const PackCost& form, const MicroPack& pack) {
  double sum = form.per_pack;
  for (const Slice& slice : pack.slices) sum += form(slice);
  return sum;
}

void add_begins(Begins& begins, const std::vector<MicroPack>& packs) {
  for (const MicroPack& pack : packs)
    for (const Slice& slice : pack.slices) {
      if (slice.begin == Tokens(0)) continue;
      if (begins.size() <= slice.sequence.index()) begins.resize(slice.sequence.index() + 1);
      begins[slice.sequence.index()].push_back(slice.begin);
    }
  for (std::vector<Tokens>& of : begins) {
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
  }
}

std::vector<bool> feeds_others(const PackPlan& packs) {
  Begins begins;
  add_begins(begins, packs.forward);
  add_begins(begins, packs.backward);
  std::vector<bool> feeds;
  for (const MicroPack& pack : packs.forward)
    feeds.push_back(std::ranges::any_of(pack.slices, [&](const Slice& slice) {
      const std::size_t q = slice.sequence.index();
      return q < begins.size() && !begins[q].empty() && begins[q].back() > slice.begin;
    }));
  return feeds;
}

}  // namespace slimpack
