#include "slimpack/plan/paired_packs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace slimpack {
namespace {

using Key = std::tuple<SequenceId, Tokens, Tokens>;

Key key_of(const Slice& slice) {
  return {slice.sequence, slice.begin, slice.end};
}

/// Slices of a pass are disjoint, so the least one names its pack.
const Slice& least(const MicroPack& pack) {
  return *std::ranges::min_element(pack.slices, {}, key_of);
}

std::vector<Key> sorted_keys(const MicroPack& pack) {
  std::vector<Key> keys;
  for (const Slice& slice : pack.slices) keys.push_back(key_of(slice));
  std::ranges::sort(keys);
  return keys;
}

bool same_slices(const MicroPack& a, const MicroPack& b) {
  return a.slices.size() == b.slices.size() && sorted_keys(a) == sorted_keys(b);
}

}  // namespace

std::vector<std::optional<PackId>> forward_pairs(const PackPlan& packs) {
  std::map<Key, PackId> forward;
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    forward.emplace(key_of(least(packs.forward[f])), PackId(f));
  std::vector<std::optional<PackId>> pairs;
  for (const MicroPack& pack : packs.backward) {
    const auto found = forward.find(key_of(least(pack)));
    const bool paired =
        found != forward.end() && same_slices(packs.forward[found->second.index()], pack);
    pairs.push_back(paired ? std::optional(found->second) : std::nullopt);
  }
  return pairs;
}

bool all_paired(const PackPlan& packs) {
  return std::ranges::all_of(forward_pairs(packs), [](const auto& f) { return f.has_value(); });
}

}  // namespace slimpack
