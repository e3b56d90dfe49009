#include "slimpack/planner/step_problem.h"

#include <algorithm>
#include <span>

#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

/// By stage: time of all sequences at speed 1.
std::vector<double> works_of(const StepProblem& problem) {
  std::vector<double> works;
  for (std::int32_t s = 0; s < problem.layout.stages(); ++s) {
    const PackCost forward = stage_cost(problem.cost, problem.layout, StageId(s), Pass::kForward);
    const PackCost backward = stage_cost(problem.cost, problem.layout, StageId(s), Pass::kBackward);
    double& work = works.emplace_back(0.0);
    for (const Tokens length : problem.lengths) {
      const Slice whole{SequenceId(), Tokens(0), length};
      work += forward(whole) + backward(whole);
    }
  }
  return works;
}

Pacing pacing_of(const std::vector<double>& works, std::span<const double> speed) {
  Pacing pacing;
  double longest = -1;
  for (std::size_t s = 0; s < works.size(); ++s) {
    const double time = works[s] / (speed.empty() ? 1.0 : speed[s]);
    if (time > longest) {
      longest = time;
      pacing.stage = StageId(s);
    }
  }
  if (longest > 0) pacing.speed = *std::max_element(works.begin(), works.end()) / longest;
  return pacing;
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

StepProblem paced(StepProblem problem) {
  const std::vector<double> works = works_of(problem);
  problem.pacing.clear();
  for (std::int32_t r = 0; r < problem.replicas; ++r)
    problem.pacing.push_back(pacing_of(works, replication_of(problem, ReplicaId(r)).speed));
  return problem;
}

UnitCost unit_cost(const StepProblem& problem, StageId stage) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= problem.most_merged; group *= 2) {
    cost.forward.push_back(stage_cost(problem.cost, problem.layout, stage, Pass::kForward, group));
    cost.backward.push_back(
        stage_cost(problem.cost, problem.layout, stage, Pass::kBackward, group));
  }
  return cost;
}

}  // namespace slimpack
