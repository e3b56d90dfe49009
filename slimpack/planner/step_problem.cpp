#include "slimpack/planner/step_problem.h"

#include <algorithm>
#include <span>

#include "slimpack/base/progress.h"
#include "slimpack/cost/whole_sequences.h"

namespace slimpack {
namespace {

/// By stage: time of all sequences at speed 1.
std::vector<double> works_of(const StepProblem& problem) {
  const WholeSequences sequences(problem.lengths);
  std::vector<double> works;
  for (std::int32_t s = 0; s < problem.job.layout.stages(); ++s) {
    const PackCost forward =
        stage_cost(problem.cost, problem.job.layout, StageId(s), Pass::kForward);
    const PackCost backward =
        stage_cost(problem.cost, problem.job.layout, StageId(s), Pass::kBackward);
    works.push_back(sequences.time(forward) + sequences.time(backward));
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

void report_progress(const StepProblem& problem) {
  if (problem.progress != nullptr) (*problem.progress)();
}

bool out_of_time(const SearchDepth& depth) {
  return depth.deadline && monotonic_now() >= *depth.deadline;
}

StageNeed largest_need(const std::vector<Bytes>& by_stage) {
  const auto largest = std::max_element(by_stage.begin(), by_stage.end());
  return {*largest, StageId(static_cast<std::size_t>(largest - by_stage.begin()))};
}

Replication replication_of(const Job& job, ReplicaId replica) {
  Replication replication{job.replicas, {}};
  if (!job.speed.empty()) replication.speed = job.speed[replica.index()];
  return replication;
}

StepProblem paced(StepProblem problem) {
  const std::vector<double> works = works_of(problem);
  problem.pacing.clear();
  for (std::int32_t r = 0; r < problem.job.replicas; ++r)
    problem.pacing.push_back(pacing_of(works, replication_of(problem.job, ReplicaId(r)).speed));
  return problem;
}

UnitCost unit_cost(const StepProblem& problem, StageId stage) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= problem.choices.most_merged; group *= 2) {
    cost.forward.push_back(
        stage_cost(problem.cost, problem.job.layout, stage, Pass::kForward, group));
    cost.backward.push_back(
        stage_cost(problem.cost, problem.job.layout, stage, Pass::kBackward, group));
  }
  return cost;
}

}  // namespace slimpack
