// Baseline orders: how a baseline's runtime would run its packs.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The baseline's plan as a step with the orders of its discipline, without a prediction. Only
/// list-scheduled baselines look at the job's memory cap: of their orders of packs the one is taken
/// whose schedule keeps it and is the shortest, or the one that is least above it. Deterministic.
/// Cost: O(actions · stages); a list-scheduled baseline takes that for each order that it tries.
[[nodiscard]] RatedPlan ordered_step(const BaselinePlan& made, const Job& job,
                                     const RecomputingCosts& cost);

/// The replica's packs in every order that a list-scheduled baseline tries.
[[nodiscard]] std::vector<PackPlan> tried_orders(const RatedPlan& step,
                                                 const RecomputingCosts& cost, ReplicaId replica);

}  // namespace slimpack
