#include "slimpack/planner/baseline_orders.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/pack_orders.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/list_scheduler.h"

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

/// So much more than the cap does the fullest stage need.
Bytes above(const std::vector<Bytes>& memory, const std::optional<Bytes>& cap) {
  if (!cap) return Bytes(0);
  return std::max(Bytes(0), largest_need(memory).bytes - *cap);
}

/// Without a limit where that keeps the cap; else under the cap, or the least that the packs need.
ListScheduler::Result list_scheduled(const ReplicaPacks& packs, const std::optional<Bytes>& cap) {
  const ListScheduler scheduler(std::span(&packs, 1));
  std::optional<ListScheduler::Result> result = scheduler.run({});
  if (above(result->memory, cap) > Bytes(0)) {
    std::vector<Bytes> caps = scheduler.least_memory();
    for (Bytes& stage : caps) stage = std::max(stage, *cap);
    result = scheduler.run(caps);
  }
  SLIMPACK_CHECK(result.has_value());
  return std::move(*result);
}

/// DynaPipe's choice: the order of the packs whose schedule is the shortest.
Schedule best_list_schedule(RatedPlan& step, const RecomputingCosts& cost, ReplicaId replica,
                            const std::optional<Bytes>& cap) {
  PackPlan& packs = step.plan.replicas[replica.index()].packs;
  PackPlan best_packs;
  std::optional<ListScheduler::Result> best;
  Bytes best_above;
  for (const PackPlan& order : tried_orders(step, cost, replica)) {
    packs = order;
    ListScheduler::Result result = list_scheduled(costed_replica(step, cost, replica), cap);
    const Bytes over = above(result.memory, cap);
    if (best && std::tuple(over, result.makespan) >= std::tuple(best_above, best->makespan))
      continue;
    best = std::move(result);
    best_packs = order;
    best_above = over;
  }
  packs = std::move(best_packs);
  return std::move(best->schedule);
}

Schedule ordered(RatedPlan& step, const BaselinePlan& made, const RecomputingCosts& cost,
                 std::size_t replica, const std::optional<Bytes>& cap) {
  const PackPlan& packs = step.plan.replicas[replica].packs;
  const std::int32_t stages = step.plan.layout.stages();
  switch (made.discipline) {
    case Discipline::kOneFOneB:
      return made.columns.empty() ? one_f_one_b(packs, stages)
                                  : columned_one_f_one_b(made.columns[replica], stages);
    case Discipline::kSlicedOneFOneB:
      return sliced_one_f_one_b(packs, stages, made.ahead_per_stage);
    case Discipline::kListSchedule:
      break;
  }
  return best_list_schedule(step, cost, ReplicaId(replica), cap);
}

}  // namespace

std::vector<PackPlan> tried_orders(const RatedPlan& step, const RecomputingCosts& cost,
                                   ReplicaId replica) {
  const PackPlan& packs = step.plan.replicas[replica.index()].packs;
  std::vector<PackPlan> orders;
  for (const auto& order : pack_orders(pack_costs(costed_replica(step, cost, replica).times)))
    orders.push_back(reordered(packs, order));
  return orders;
}

RatedPlan ordered_step(const BaselinePlan& made, const Job& job, const RecomputingCosts& cost) {
  RatedPlan step;
  step.plan = made.plan;
  step.speed = job.speed;
  step.plan.recompute = cost.recompute;
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    step.schedules.push_back(ordered(step, made, cost, r, job.memory_cap));
  return step;
}

}  // namespace slimpack
