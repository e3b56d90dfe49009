#include "slimpack/planner/best_order.h"

#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/planner/exchange_planning.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/vocabulary_planning.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

std::vector<Schedule> regular_orders(const StepPlan& plan) {
  std::vector<Schedule> orders;
  for (const ReplicaPlan& replica : plan.replicas)
    orders.push_back(sliced_one_f_one_b(replica.packs, plan.layout.ranks(), 2,
                                        plan.layout.placement.stages_per_rank()));
  return orders;
}

/// Whether the orders are correct before E, H and G are put in.
bool runs(StepPlan& plan, std::span<const Schedule> orders) {
  const bool spread = std::exchange(plan.layout.spread_vocabulary, false);
  const bool correct = check_step(plan, orders).empty();
  plan.layout.spread_vocabulary = spread;
  return correct;
}

}  // namespace

OrderedStep best_ordered(RatedPlan listed, const Costs& cost, const std::optional<Bytes>& cap,
                         bool exchange_context) {
  std::vector<RatedPlan> steps;
  if (std::vector<Schedule> orders = regular_orders(listed.plan); runs(listed.plan, orders)) {
    steps.push_back(listed);
    steps.back().schedules = std::move(orders);
    steps.back().memory.clear();
  }
  steps.insert(steps.begin(), std::move(listed));
  std::optional<OrderedStep> best;
  const auto rank = [&](const OrderedStep& ordered) {
    const bool above = !fits(ordered.step, ordered.need.bytes, cap, cost);
    return std::tuple(above, above ? ordered.need.bytes.count() : 0,
                      ordered.step.prediction.makespan);
  };
  const auto consider = [&](RatedPlan step) {
    step.prediction = predict(step, cost, {kChannelSlots, false});
    OrderedStep ordered{std::move(step), {}};
    ordered.need = step_need(ordered.step, cost);
    if (!best || rank(ordered) < rank(*best)) best = std::move(ordered);
  };
  for (RatedPlan& step : steps) {
    put_vocabulary_in(step);
    consider(step);
    if (!exchange_context) continue;
    put_exchanges_in(step, cost);
    if (has_exchanges(step)) consider(std::move(step));
  }
  return std::move(*best);
}

}  // namespace slimpack
