// Steps: divide the layers; for fixed packing make its one plan; otherwise search, once for every
// recomputation that may pay; simulate the best as a whole job.
#include <utility>

#include "slimpack/planner/does_not_fit.h"
#include "slimpack/planner/packed_step.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/planner/step_search.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

/// A replica's packs in the step's ids.
PackPlan in_step_ids(PackPlan packs, const ReplicaShare& share) {
  for (auto* pass : {&packs.forward, &packs.backward})
    for (MicroPack& pack : *pass)
      for (Slice& slice : pack.slices) slice.sequence = share.sequences[slice.sequence.index()];
  return packs;
}

PlannedStep step_of(const StepProblem& problem, StepSolution solution) {
  PlannedStep step;
  step.plan.lengths = problem.lengths;
  step.plan.layout = problem.layout;
  step.plan.replicas.resize(static_cast<std::size_t>(problem.replicas));
  step.schedules.resize(step.plan.replicas.size());
  step.speed = problem.speed;
  step.recompute = problem.cost.recompute;
  for (std::size_t u = 0; u < solution.units.size(); ++u) {
    RatedUnit& rated = solution.rated[u];
    for (std::size_t i = 0; i < rated.packs.size(); ++i) {
      const ReplicaShare& share = solution.units[u].replicas[i];
      step.schedules[share.replica.index()] = own_order(rated.schedule, rated.packs[i]);
      step.plan.replicas[share.replica.index()] = {share.sequences,
                                                   in_step_ids(std::move(rated.packs[i]), share)};
    }
  }
  return step;
}

StepBoundProblem bound_problem(const StepProblem& problem) {
  return {problem.cost,  problem.lengths,     problem.layout,     problem.replicas,
          problem.speed, problem.most_merged, problem.granularity};
}

PlanOutcome plan_packed(const PlanRequest& request, const StepProblem& problem) {
  PlanOutcome outcome;
  PlannedStep step = packed_step(problem, request.context);
  const StageNeed need = step_need(step, problem.cost);
  if (request.memory_cap && need.bytes > *request.memory_cap)
    outcome.does_not_fit = refusal(request, problem, need);
  else
    outcome.step = std::move(step);
  return outcome;
}

StepProblem with_cost(const StepProblem& problem, const CostModel& cost) {
  return paced({cost, problem.lengths, problem.speed, problem.layout, problem.replicas,
                problem.most_merged, problem.granularity, problem.memory_cap, problem.effort});
}

PlanOutcome plan_slimpack(const PlanRequest& request, const StepProblem& problem) {
  PlanOutcome outcome;
  std::optional<Nanos> best;
  std::optional<std::pair<StageNeed, Recompute>> least;
  for (const Recompute recompute : request.recompute) {
    const CostModel cost = with_recompute(problem.cost, recompute);
    const StepProblem recomputing = with_cost(problem, cost);
    if (best && step_actions_bound(bound_problem(recomputing)) >= *best) continue;
    StepSearchResult result = search_step(recomputing);
    if (result.solution && (!best || result.solution->makespan < *best)) {
      best = result.solution->makespan;
      outcome.step = step_of(recomputing, std::move(*result.solution));
    } else if (!result.solution && (!least || result.least_need.bytes < least->first.bytes)) {
      least = {result.least_need, recompute};
    }
  }
  if (!outcome.step) {
    const CostModel cost = with_recompute(problem.cost, least->second);
    outcome.does_not_fit = refusal(request, with_cost(problem, cost), least->first);
  }
  return outcome;
}

}  // namespace

double PlannedStep::gap() const {
  return lower_bound > Nanos(0) ? static_cast<double>(prediction.makespan.count()) /
                                          static_cast<double>(lower_bound.count()) -
                                      1
                                : 0;
}

PlanOutcome plan_step(const PlanRequest& request, const CostModel& cost) {
  require_sensible(request, cost);
  const StepProblem problem{
      cost,
      request.lengths,
      request.speed,
      request.layout ? *request.layout : balanced_layout(cost, request.lengths, request.pp),
      request.dp,
      request.most_merged,
      request.granularity,
      request.memory_cap,
      request.effort};
  PlanOutcome outcome = request.planner == PlannerKind::kPacked ? plan_packed(request, problem)
                                                                : plan_slimpack(request, problem);
  if (outcome.step) {
    outcome.step->prediction = predict(*outcome.step, cost, {kChannelSlots, false});
    outcome.step->lower_bound = step_lower_bound(bound_problem(problem));
  }
  return outcome;
}

}  // namespace slimpack
