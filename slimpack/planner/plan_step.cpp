// Steps: divide the layers; for fixed packing make its one plan; otherwise cut, schedule and rate
// the candidates; simulate the best once more for its timeline.
#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/cost/memory_model.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/planner/does_not_fit.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/search.h"

namespace slimpack {
namespace {

void require_sensible(const PlanRequest& request) {
  if (request.lengths.empty()) invalid_input("a step of no sequences has no plan; give at least 1");
  for (std::size_t q = 0; q < request.lengths.size(); ++q)
    if (request.lengths[q] < Tokens(1))
      invalid_input("sequence {} has {} tokens, the least is 1; leave empty sequences out", q,
                    request.lengths[q].count());
  if (request.granularity < Tokens(1))
    invalid_input("granularity is {} tokens, the least is 1; 128 is usual",
                  request.granularity.count());
  if (request.memory_cap && *request.memory_cap < Bytes(1))
    invalid_input("the memory cap is {} bytes, the least is 1; leave it out for no cap",
                  request.memory_cap->count());
  if (request.planner == PlannerKind::kPacked && request.context < Tokens(1))
    invalid_input("the context is {} tokens, the least is 1; fixed packing fills packs of it",
                  request.context.count());
}

PlannedStep planned(const SearchProblem& problem, PackPlan packs, Schedule schedule,
                    SimulationResult prediction) {
  PlannedStep step;
  step.plan.lengths = problem.lengths;
  step.plan.layout = problem.layout;
  ReplicaPlan& replica = step.plan.replicas.emplace_back();
  replica.sequences = all_sequences(problem.lengths);
  replica.packs = std::move(packs);
  step.schedule = std::move(schedule);
  step.prediction = std::move(prediction);
  return step;
}

PlanOutcome plan_packed(const PlanRequest& request, const SearchProblem& problem) {
  PackedTasks tasks = packed_tasks(problem, request.context);
  const StageNeed need = largest_need(schedule_memory(tasks.packs, tasks.schedule, tasks.bytes));
  PlanOutcome outcome;
  if (request.memory_cap && need.bytes > *request.memory_cap) {
    outcome.does_not_fit = refusal(request, problem, need);
    return outcome;
  }
  SimulationResult prediction = simulate(tasks.packs, tasks.schedule, tasks.times, tasks.bytes);
  outcome.step =
      planned(problem, std::move(tasks.packs), std::move(tasks.schedule), std::move(prediction));
  return outcome;
}

PlanOutcome plan_slimpack(const PlanRequest& request, const SearchProblem& problem) {
  Search search(problem);
  search.run(plan_candidates(request.lengths, request.pp, request.granularity));
  PlanOutcome outcome;
  if (!search.best()) {
    outcome.does_not_fit = refusal(request, problem, search.least_need());
    return outcome;
  }
  const RatedPlan& best = *search.best();
  const TaskTimes times = task_times(problem.cost, problem.layout, best.packs);
  const TaskBytes bytes = task_bytes(problem.cost, problem.layout,
                                     best.packs, problem.lengths);
  outcome.step = planned(problem, best.packs, best.schedule,
                         simulate(best.packs, best.schedule, times, bytes));
  return outcome;
}

}  // namespace

PlanOutcome plan_step(const PlanRequest& request, const CostModel& cost) {
  require_sensible(request);
  SLIMPACK_CHECK(!request.layout || request.layout->stages() == request.pp);
  const SearchProblem problem{
      cost, request.lengths,
      request.layout ? *request.layout : balanced_layout(cost, request.lengths, request.pp),
      request.memory_cap};
  return request.planner == PlannerKind::kPacked ? plan_packed(request, problem)
                                                 : plan_slimpack(request, problem);
}

}  // namespace slimpack
