#include "slimpack/cost/row_moves.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/cost/layer_widths.h"

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

double row_move_time(const Costs& cost, const StageLayout& layout, StageId stage, Pass pass,
                     const RowMoves& moves) {
  if (moves == RowMoves()) return 0;
  const bool backward = pass == Pass::kBackward;
  const double of_byte =
      moves.inside * cost.row_moves.inside + moves.outside * cost.row_moves.outside;
  double time = 0;
  for (std::int32_t l = layout.layer_begin[stage.index()];
       l < layout.layer_begin[stage.index() + 1]; ++l) {
    const LayerWidths widths(cost.shape, cost.shape.kind_of(static_cast<std::size_t>(l)),
                             cost.dtype, cost.tp);
    const auto q = static_cast<double>(widths.q), qkv = q + 2 * static_cast<double>(widths.k);
    time += (backward ? 3 : 2) * cost.row_moves.latency + of_byte * (qkv + (backward ? 2 : 1) * q);
  }
  return time;
}

}  // namespace slimpack
