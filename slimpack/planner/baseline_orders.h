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
/// cyclic schedules look at the memory cap. For every order of the packs that DynaPipe tries,
/// they find the most packs in flight that keep the cap, and then take the shortest of these
/// schedules. If none keeps the cap, they take the schedule that is least above it. One replica of
/// at most `few_packs` packs tries every number in flight, so that of such a replica more memory
/// never leads to a longer step. Deterministic. Cost: O(actions · stages); of cyclic schedules that
/// for each order and number.
[[nodiscard]] RatedPlan ordered_step(const BaselinePlan& made,
                                     const std::optional<Bytes>& memory_cap,
                                     const StageTable& table, std::size_t few_packs = 0);

/// Both make the step of ordered_step replica by replica, for callers for whom not all orders may
/// be worth making. unordered_step returns the step without orders. order_next makes the orders of
/// the first replica that has none.
[[nodiscard]] RatedPlan unordered_step(const BaselinePlan& made, const StageTable& table);
void order_next(RatedPlan& step, const BaselinePlan& made, const std::optional<Bytes>& memory_cap,
                const StageTable& table, std::size_t few_packs);

/// A replica's orders, where costs and memory do not change them. REQUIRES: no cyclic schedule.
[[nodiscard]] Schedule fixed_order(const BaselinePlan& made, std::size_t replica);

}  // namespace slimpack
