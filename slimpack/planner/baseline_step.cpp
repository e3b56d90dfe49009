// Steps, for each recomputation: make the baseline's plan; order every replica by its discipline;
// simulate. Keep the best that fits.
#include "slimpack/planner/baseline_step.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/pack_orders.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// Forward and backward of each pack over all stages. REQUIRES: both passes have the same packs.
std::vector<std::int64_t> pack_costs(const TaskTimes& times) {
  std::vector<std::int64_t> costs(times.forward.front().size(), 0);
  for (const auto* pass : {&times.forward, &times.backward})
    for (const auto& stage : *pass)
      for (std::size_t p = 0; p < costs.size(); ++p) costs[p] += stage[p].count();
  return costs;
}

PackPlan reordered(const PackPlan& packs, const std::vector<std::size_t>& order) {
  PackPlan out;
  for (const std::size_t p : order) out.forward.push_back(packs.forward[p]);
  out.backward = out.forward;
  return out;
}

bool keeps(const std::vector<Bytes>& memory, const std::optional<Bytes>& cap) {
  return !cap || std::all_of(memory.begin(), memory.end(), [&](Bytes b) { return b <= *cap; });
}

/// Without a limit where that keeps the cap; else under the cap, or the least that the packs need.
ListScheduler::Result list_scheduled(const CostedReplica& costed, const std::optional<Bytes>& cap) {
  const ReplicaPacks packs{costed.packs, costed.times, costed.bytes};
  const ListScheduler scheduler(std::span(&packs, 1));
  std::optional<ListScheduler::Result> result = scheduler.run({});
  if (!keeps(result->memory, cap)) {
    std::vector<Bytes> caps = scheduler.least_memory();
    for (Bytes& stage : caps) stage = std::max(stage, *cap);
    result = scheduler.run(caps);
  }
  SLIMPACK_CHECK(result.has_value());
  return std::move(*result);
}

/// DynaPipe's choice: the order of the packs whose schedule is the shortest.
Schedule best_list_schedule(PlannedStep& step, const CostModel& cost, ReplicaId replica,
                            const std::optional<Bytes>& cap) {
  PackPlan& packs = step.plan.replicas[replica.index()].packs;
  const PackPlan given = packs;
  PackPlan best_packs;
  std::optional<ListScheduler::Result> best;
  bool best_keeps = false;
  for (const auto& order : pack_orders(pack_costs(costed_replica(step, cost, replica).times))) {
    packs = reordered(given, order);
    ListScheduler::Result result = list_scheduled(costed_replica(step, cost, replica), cap);
    const bool kept = keeps(result.memory, cap);
    if (best && std::tuple(!kept, result.makespan) >= std::tuple(!best_keeps, best->makespan))
      continue;
    best = std::move(result);
    best_packs = packs;
    best_keeps = kept;
  }
  packs = std::move(best_packs);
  return std::move(best->schedule);
}

Schedule ordered(PlannedStep& step, const BaselinePlan& baseline, const CostModel& cost,
                 std::size_t replica, const std::optional<Bytes>& cap) {
  const PackPlan& packs = step.plan.replicas[replica].packs;
  const std::int32_t stages = step.plan.layout.stages();
  switch (baseline.discipline) {
    case Discipline::kOneFOneB:
      return baseline.columns.empty() ? one_f_one_b(packs, stages)
                                      : columned_one_f_one_b(baseline.columns[replica], stages);
    case Discipline::kSlicedOneFOneB:
      return sliced_one_f_one_b(packs, stages, baseline.ahead_per_stage);
    case Discipline::kListSchedule:
      break;
  }
  return best_list_schedule(step, cost, ReplicaId(replica), cap);
}

std::int32_t most_merged(const StepPlan& plan) {
  std::int32_t most = 1;
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward) most = std::max(most, pack.replicas);
  return most;
}

/// Where the plan may cut: nowhere else than plans of ours, or at any token.
Tokens cut_unit(const StepPlan& plan, Tokens granularity) {
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& slice : pack.slices)
        if (slice.length() < plan.lengths[slice.sequence.index()]) return Tokens(1);
  return granularity;
}

/// `cost` with the recomputation of the step; without prediction.
PlannedStep ordered_step(const Baseline& baseline, const PlanRequest& request,
                         const StageLayout& layout, const CostModel& cost) {
  const BaselinePlan made =
      baseline_plan(baseline, {request.lengths, cost, layout, request.dp, request.context});
  PlannedStep step;
  step.plan = made.plan;
  step.speed = request.speed;
  step.plan.recompute = cost.recompute;
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    step.schedules.push_back(ordered(step, made, cost, r, request.memory_cap));
  return step;
}

}  // namespace

PlannedStep baseline_step(const Baseline& baseline, const PlanRequest& request,
                          const CostModel& cost) {
  require_sensible(request, cost);
  const StageLayout layout =
      request.layout ? *request.layout : balanced_layout(cost, request.lengths, request.pp);
  std::optional<PlannedStep> best;
  Bytes best_over;
  for (const Recompute recompute : request.recompute) {
    const CostModel recomputing = with_recompute(cost, recompute);
    PlannedStep step = ordered_step(baseline, request, layout, recomputing);
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
