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
/// list-scheduled baselines look at the job's memory cap: they take the order of packs with the
/// shortest schedule that keeps the cap, or, if none does, the order that is least above it.
/// Deterministic. Cost: O(actions · stages); for list-scheduled baselines, that for each order.
[[nodiscard]] RatedPlan ordered_step(const BaselinePlan& made, const Job& job,
                                     const RecomputingCosts& cost);

/// The replica's packs in every order that a list-scheduled baseline tries.
[[nodiscard]] std::vector<PackPlan> tried_orders(const RatedPlan& step,
                                                 const RecomputingCosts& cost, ReplicaId replica);

}  // namespace slimpack
