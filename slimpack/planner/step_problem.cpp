#include "slimpack/planner/step_problem.h"

#include <algorithm>

#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

/// Time of all sequences on a stage at speed 1.
double work_on(const StepProblem& problem, StageId stage) {
  const SliceCost forward = slice_cost(problem.cost, problem.layout, stage, false);
  const SliceCost backward = slice_cost(problem.cost, problem.layout, stage, true);
  double work = 0;
  for (const Tokens length : problem.lengths) {
    const Slice whole{SequenceId(), Tokens(0), length};
    work += forward(whole) + backward(whole);
  }
  return work;
}

}  // namespace

bool out_of_time(const StepProblem& problem) {
  return problem.deadline && monotonic_now() >= *problem.deadline;
}

StageNeed largest_need(const std::vector<Bytes>& by_stage) {
  const auto largest = std::max_element(by_stage.begin(), by_stage.end());
  return {*largest, StageId(static_cast<std::size_t>(largest - by_stage.begin()))};
}

Replication replication_of(const StepProblem& problem, ReplicaId replica) {
  Replication replication{problem.replicas, {}};
  if (!problem.speed.empty()) replication.speed = problem.speed[replica.index()];
  return replication;
}

Pacing pacing_of(const StepProblem& problem, ReplicaId replica) {
  const Replication replication = replication_of(problem, replica);
  Pacing pacing;
  double longest = -1;
  double most_work = 0;
  for (std::int32_t s = 0; s < problem.layout.stages(); ++s) {
    const double work = work_on(problem, StageId(s));
    const double time =
        work / (replication.speed.empty() ? 1.0 : replication.speed[static_cast<std::size_t>(s)]);
    most_work = std::max(most_work, work);
    if (time > longest) {
      longest = time;
      pacing.stage = StageId(s);
    }
  }
  if (longest > 0) pacing.speed = most_work / longest;
  return pacing;
}

UnitCost unit_cost(const StepProblem& problem, StageId stage) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= problem.most_merged; group *= 2) {
    cost.forward.push_back(merged_slice_cost(problem.cost, problem.layout, stage, false, group));
    cost.backward.push_back(merged_slice_cost(problem.cost, problem.layout, stage, true, group));
  }
  return cost;
}

}  // namespace slimpack
