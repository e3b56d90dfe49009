// Row moves: rows that replicas move to those that attend with them, and back
// (packflow/layer/attention_rows.h).
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/node_placement.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The most rows of a MicroPack that one member sends or gets, inside its node and between nodes.
struct RowMoves {
  double inside = 0;
  double outside = 0;

  bool operator==(const RowMoves&) const = default;
};

/// The moves are zero without row zones. Cost: O(members² · zones that differ).
[[nodiscard]] RowMoves row_moves(const MicroPack& pack, const NodePlacement& placement);

/// Nanoseconds of the moves in all layers of a stage in one pass. Forward moves queries, keys and
/// values there and outputs back; backward moves outputs back again and their gradients there, and
/// gradients of queries, keys and values back.
[[nodiscard]] double row_move_time(const Costs& cost, const StageLayout& layout, StageId stage,
                                   Pass pass, const RowMoves& moves);

}  // namespace slimpack
