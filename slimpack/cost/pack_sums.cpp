#include "slimpack/cost/pack_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

/// Rows that one member sends and gets, inside its node and between nodes.
struct MemberMoves {
  double sent_inside = 0, sent_outside = 0, got_inside = 0, got_outside = 0;
};

/// Calls for each pair of members with the share of a sequence's positions that `from` has in its
/// zone of rows, and `to` in its zone of attention: those that leave the same rest by both sizes.
template <class Call>
void for_shares(const Zone& rows, const Zone& attention, Call call) {
  const std::int32_t both = std::gcd(rows.size, attention.size);
  const double share = 1.0 / std::lcm(rows.size, attention.size);
  for (std::int32_t from = 0; from < rows.size; ++from)
    for (std::int32_t to = from % both; to < attention.size; to += both)
      call(rows.first + from, attention.first + to, share);
}

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

RowMoves row_moves(const MicroPack& pack, const NodePlacement& placement) {
  if (pack.row_zones.empty()) return {};
  std::map<std::pair<Zone, Zone>, double> tokens;  // by zone of rows and zone of attention
  for (std::size_t s = 0; s < pack.slices.size(); ++s)
    if (pack.row_zone(s) != pack.zone(s))
      tokens[{pack.row_zone(s), pack.zone(s)}] +=
          static_cast<double>(pack.slices[s].length().count());
  std::vector<MemberMoves> members(static_cast<std::size_t>(pack.replicas));
  const std::int32_t on_node = placement.replicas_together();
  for (const auto& [zones, tokens_of_zones] : tokens) {
    const double count = tokens_of_zones;
    for_shares(zones.first, zones.second, [&](std::int32_t from, std::int32_t to, double share) {
      if (from == to) return;
      MemberMoves &a = members[static_cast<std::size_t>(from)],
                  &b = members[static_cast<std::size_t>(to)];
      const bool inside = from / on_node == to / on_node;
      (inside ? a.sent_inside : a.sent_outside) += share * count;
      (inside ? b.got_inside : b.got_outside) += share * count;
    });
  }
  RowMoves most;
  for (const MemberMoves& m : members) {
    most.inside = std::max({most.inside, m.sent_inside, m.got_inside});
    most.outside = std::max({most.outside, m.sent_outside, m.got_outside});
  }
  return most;
}

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
