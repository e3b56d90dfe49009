// Pack sums: what the times of a MicroPack are computed from.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/pack_cost.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// To whole nanoseconds. Longer times, infinity and NaN count as kLongestTime.
[[nodiscard]] Nanos rounded(double nanos);

/// Rows that replicas move to those that attend with them, and back (packflow/layer/row_remap.h):
/// the most of a MicroPack that one member sends or gets, inside its node and between nodes.
struct RowMoves {
  double inside = 0;
  double outside = 0;

  bool operator==(const RowMoves&) const = default;
};

/// The moves are zero without row zones. Cost: O(members² · zones that differ).
[[nodiscard]] RowMoves row_moves(const MicroPack& pack, const NodePlacement& placement);

/// Sums over slices.
struct SliceSums {
  double slices = 0;
  double tokens = 0;
  double pairs = 0;
  double prefix = 0;
  double window_pairs = 0;
  double window_prefix = 0;

  void add(const Slice& slice, Tokens window) {
    slices += 1;
    tokens += static_cast<double>(slice.length().count());
    pairs += slice.causal_pairs();
    prefix += static_cast<double>(slice.prefix().count());
    if (window == Tokens(0)) return;
    window_pairs += slice.window_pairs(window);
    window_prefix += static_cast<double>(slice.window_prefix(window).count());
  }
};

/// Sums over the slices of one zone.
struct ZoneSums : SliceSums {
  Zone zone;
};

/// Sums over the slices of a pack.
struct PackSums : SliceSums {
  std::int32_t replicas = 1;
  std::vector<ZoneSums> zones;       ///< where slices have zones of their own
  std::vector<double> rows_of = {};  ///< by member of its group, where there are zones
  double rows = 0;                   ///< on the replica that holds most
  RowMoves moves = {};
};

/// The sums of each pack. `window`: of layers that have one, else 0.
[[nodiscard]] std::vector<PackSums> sums_of(const std::vector<MicroPack>& packs, Tokens window,
                                            const NodePlacement& placement);

/// Nanoseconds: `start` and what slices add to it.
[[nodiscard]] double time_of_slices(double start, const PackCost& cost, const SliceSums& sum);

/// The time of a pack without zones.
[[nodiscard]] Nanos time_of(const PackCost& cost, const PackSums& sum);

}  // namespace slimpack
