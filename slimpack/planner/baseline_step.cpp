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

RatedPlan baseline_step(const Baseline& baseline, const Job& job, const SequenceLengths& lengths,
                        const Choices& choices, const Costs& cost) {
  require_sensible(job, lengths, choices, cost);
  std::optional<RatedPlan> best;
  Bytes best_over;
  for (const Recompute recompute : choices.recompute) {
    const RecomputingCosts recomputing = with_recompute(cost, recompute);
    RatedPlan step =
        ordered_step(baseline_plan(baseline, job, lengths, recomputing), job, recomputing);
    step.prediction = predict(step, cost, {kChannelSlots, false});
    Bytes over;  // above the cap
    if (job.memory_cap) over = std::max(Bytes(0), step_need(step, cost).bytes - *job.memory_cap);
    if (best && std::tuple(over, step.prediction.makespan) >=
                    std::tuple(best_over, best->prediction.makespan))
      continue;
    best = std::move(step);
    best_over = over;
  }
  // Above the cap, no bound for plans that keep it holds.
  Job bounded = job;
  if (best_over > Bytes(0)) bounded.memory_cap.reset();
  best->lower_bound =
      step_lower_bound(bounded, lengths, cheapest_cost(cost, choices.recompute),
                       {std::max(choices.most_merged, most_merged(best->plan)),
                        cut_unit(best->plan, choices.granularity), choices.recompute});
  return std::move(*best);
}

}  // namespace slimpack
