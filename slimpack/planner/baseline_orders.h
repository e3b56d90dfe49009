// Baseline orders: how a baseline's runtime would run its packs.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The baseline's plan as a step with the orders of its discipline, without a prediction. Only
/// cyclic schedules look at the job's memory cap. Of every order of the packs that DynaPipe tries
/// they take the one with the most packs in flight that keeps the cap, and of those the shortest.
/// If none keeps it, they take what is least above it. One replica of at most `few_packs` packs
/// tries every number in flight, so that of such a replica more memory never leads to a longer
/// step. Deterministic. Cost: O(actions · stages); of cyclic schedules that for each order and
/// number.
[[nodiscard]] RatedPlan ordered_step(const BaselinePlan& made, const Job& job,
                                     const RecomputingCosts& cost, std::size_t few_packs = 0);

/// The same before and between its replicas, for whom not all orders may be worth making: the step
/// without orders; and the orders of its first replica that has none.
[[nodiscard]] RatedPlan unordered_step(const BaselinePlan& made, const Job& job,
                                       const RecomputingCosts& cost);
void order_next(RatedPlan& step, const BaselinePlan& made, const Job& job,
                const RecomputingCosts& cost, std::size_t few_packs);

/// A replica's orders, where costs and memory do not change them. REQUIRES: no cyclic schedule.
[[nodiscard]] Schedule fixed_order(const BaselinePlan& made, std::size_t replica);

}  // namespace slimpack
