// Step bound: a time below which no plan of these sequences gets, whatever its cuts and orders.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/job.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// What plans may do with sequences.
struct CutLimits {
  std::int32_t most_merged = 1;  ///< replicas that run a sequence together
  Tokens granularity{128};       ///< cuts lie at multiples of it
};

/// The greatest of what holds for every plan within the limits (so that only the last slice of a
/// sequence may be shorter than the granularity), on these ranks, whatever memory they have, at
/// these costs:
///  1. Work. On every stage the replicas together have the time of all sequences uncut; none can
///     start before the shortest slice has come through the stages before, nor end later than the
///     shortest slice needs to get back through them.
///  2. Chains. A sequence's forward slices follow each other on the first stage, the last of them
///     goes through all others, then its backward slices follow each other on the last stage and
///     the last of them comes back: on the best group of replicas for it.
///  3. Balance. Without merging, the bound of balance.h on the busiest stage.
/// Where the cost model knows weight gradients, they may be put off: on all stages but the first
/// they lie on no way out and no chain.
/// And then the reduction of the first stage and the longest optimizer step.
/// REQUIRES: at least one sequence. Cost: O(sequences · stages).
[[nodiscard]] Nanos step_lower_bound(const Job& job, const SequenceLengths& lengths,
                                     const RecomputingCosts& cost, const CutLimits& limits);

/// The same until the last action ends, without reduction and optimizer.
[[nodiscard]] Nanos step_actions_bound(const Job& job, const SequenceLengths& lengths,
                                       const RecomputingCosts& cost, const CutLimits& limits);

}  // namespace slimpack
