#include "slimpack/baselines/dealing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

/// The packs of each share, by index.
std::vector<std::vector<std::size_t>> dealt_indices(std::span<const std::int64_t> costs,
                                                    std::size_t shares, Dealing dealing) {
  SLIMPACK_CHECK(dealing != Dealing::kPublished);
  if (dealing == Dealing::kByTime) return karmarkar_karp(costs, shares);
  std::vector<std::vector<std::size_t>> dealt(shares);
  for (std::size_t i = 0; i < costs.size(); ++i) dealt[i % shares].push_back(i);
  return dealt;
}

}  // namespace

std::vector<std::int64_t> pack_costs(const BaselineInput& input, const SequencePacks& packs) {
  const PackCost step = step_cost(input.table);
  std::vector<std::int64_t> costs;
  costs.reserve(packs.size());
  for (const auto& pack : packs) {
    double cost = step.per_pack;
    for (const SequenceId id : pack) cost += step(Slice{id, Tokens(0), input.lengths[id.index()]});
    costs.push_back(std::llround(std::ceil(cost)));
  }
  return costs;
}

std::vector<std::size_t> ordered_items(std::span<const std::int64_t> costs, PackOrder order) {
  std::vector<std::size_t> items(costs.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  if (order == PackOrder::kPublished) return items;
  std::stable_sort(items.begin(), items.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  if (order == PackOrder::kLightestFirst) std::reverse(items.begin(), items.end());
  if (order != PackOrder::kLightAtBothEnds) return items;
  std::vector<std::size_t> ends;
  for (std::size_t i = (items.size() + 1) / 2; i-- > 0;) ends.push_back(items[2 * i]);
  for (std::size_t i = 1; i < items.size(); i += 2) ends.push_back(items[i]);
  return ends;
}

SequencePacks ordered(const BaselineInput& input, const SequencePacks& packs, PackOrder order) {
  if (order == PackOrder::kPublished || packs.size() < 2) return packs;
  SequencePacks out;
  for (const std::size_t i : ordered_items(pack_costs(input, packs), order))
    out.push_back(packs[i]);
  return out;
}

std::vector<SequencePacks> deal(const SequencePacks& packs, std::span<const std::int64_t> costs,
                                std::int32_t shares, Dealing dealing) {
  std::vector<SequencePacks> out;
  for (const auto& own : dealt_indices(costs, static_cast<std::size_t>(shares), dealing)) {
    SequencePacks& share = out.emplace_back();
    for (const std::size_t pack : own) share.push_back(packs[pack]);
  }
  return out;
}

}  // namespace slimpack
