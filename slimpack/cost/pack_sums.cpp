#include "slimpack/cost/pack_sums.h"

#include <algorithm>
#include <cmath>

namespace slimpack {
namespace {

/// Adds what a zone's slices have, and the rows of each replica.
void add_zones(PackSums& sum, const MicroPack& pack, Tokens window) {
  sum.rows_of.resize(static_cast<std::size_t>(pack.replicas));
  for (std::size_t s = 0; s < pack.slices.size(); ++s) {
    const Zone zone = pack.zone(s), holders = pack.row_zone(s);
    if (sum.zones.empty() || sum.zones.back().zone != zone) sum.zones.emplace_back().zone = zone;
    sum.zones.back().add(pack.slices[s], window);
    const auto tokens = static_cast<double>(pack.slices[s].length().count());
    for (std::int32_t m = holders.first; m < holders.end(); ++m)
      sum.rows_of[static_cast<std::size_t>(m)] += tokens / holders.size;
  }
  sum.rows = std::ranges::max(sum.rows_of);
}

}  // namespace

Nanos rounded(double nanos) {
  return Nanos(std::llround(nanos < kLongestTime ? nanos : kLongestTime));
}

std::vector<PackSums> sums_of(const std::vector<MicroPack>& packs, Tokens window,
                              const NodePlacement& placement) {
  std::vector<PackSums> sums;
  sums.reserve(packs.size());
  for (const MicroPack& pack : packs) {
    PackSums& sum = sums.emplace_back();
    sum.replicas = pack.replicas;
    for (const Slice& slice : pack.slices) sum.add(slice, window);
    sum.rows = sum.tokens / sum.replicas;
    if (!pack.zones.empty() || !pack.row_zones.empty()) add_zones(sum, pack, window);
    sum.moves = row_moves(pack, placement);
  }
  return sums;
}

double time_of_slices(double start, const PackCost& cost, const SliceSums& sum) {
  return start + cost.per_slice * sum.slices + cost.per_token * sum.tokens +
         cost.per_pair * sum.pairs + cost.per_prefix_token * sum.prefix +
         cost.per_window_pair * sum.window_pairs + cost.per_window_prefix * sum.window_prefix +
         cost.travel.time(sum.tokens, sum.prefix, cost.windowed() ? sum.window_pairs : sum.pairs);
}

Nanos time_of(const PackCost& cost, const PackSums& sum) {
  return rounded(time_of_slices(cost.per_pack, cost, sum) + cost.missing_rows(sum.rows));
}

}  // namespace slimpack
