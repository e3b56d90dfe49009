// Steps, for each recomputation: make the baseline's plan; order every replica by its discipline;
// simulate. Keep the best that fits.
#include "slimpack/planner/baseline_step.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {

std::int32_t most_merged(const StepPlan& plan) {
  std::int32_t most = 1;
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward) most = std::max(most, pack.replicas);
  return most;
}

Tokens cut_unit(const StepPlan& plan, Tokens granularity) {
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& slice : pack.slices)
        if (slice.length() < plan.lengths[slice.sequence.index()]) return Tokens(1);
  return granularity;
}

PlannedStep baseline_step(const Baseline& baseline, const PlanRequest& request,
                          const CostModel& cost) {
  require_sensible(request, cost);
  const StageLayout layout =
      request.layout ? *request.layout : balanced_layout(cost, request.lengths, request.pp);
  std::optional<PlannedStep> best;
  Bytes best_over;
  for (const Recompute recompute : request.recompute) {
    const CostModel recomputing = with_recompute(cost, recompute);
    PlannedStep step = ordered_step(baseline_plan(baseline, {request.lengths, recomputing, layout,
                                                             request.dp, request.context}),
                                    recomputing, request.speed, request.memory_cap);
    step.prediction = predict(step, cost, {kChannelSlots, false});
    Bytes over;  // above the cap
    if (request.memory_cap)
      over = std::max(Bytes(0), step_need(step, recomputing).bytes - *request.memory_cap);
    if (best && std::tuple(over, step.prediction.makespan) >=
                    std::tuple(best_over, best->prediction.makespan))
      continue;
    best = std::move(step);
    best_over = over;
  }
  const CostModel cheapest = cheapest_cost(cost, request.recompute);
  best->lower_bound =
      step_lower_bound({cheapest, request.lengths, layout, request.dp, request.speed,
                        std::max(request.most_merged, most_merged(best->plan)),
                        cut_unit(best->plan, request.granularity)});
  return std::move(*best);
}

}  // namespace slimpack
