#include "slimpack/planner/step_problem.h"

#include <algorithm>
#include <span>

#include "slimpack/base/progress.h"
#include "slimpack/cost/whole_sequences.h"

namespace slimpack {
namespace {

/// The time of all sequences on each rank at speed 1.
std::vector<double> works_of(const StepProblem& problem) {
  const WholeSequences sequences(problem.lengths);
  std::vector<double> works;
  for (std::int32_t r = 0; r < problem.job.layout.ranks(); ++r) {
    const PackCost forward = rank_cost(problem.cost, problem.job.layout, r, Pass::kForward);
    const PackCost backward = rank_cost(problem.cost, problem.job.layout, r, Pass::kBackward);
    works.push_back(sequences.time(forward) + sequences.time(backward));
  }
  return works;
}

Pacing pacing_of(const std::vector<double>& works, std::span<const double> speed) {
  Pacing pacing;
  double longest = -1;
  for (std::size_t r = 0; r < works.size(); ++r) {
    const double time = works[r] / (speed.empty() ? 1.0 : speed[r]);
    if (time > longest) {
      longest = time;
      pacing.rank = static_cast<std::int32_t>(r);
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

RankNeed largest_need(const std::vector<Bytes>& by_rank) {
  const auto largest = std::max_element(by_rank.begin(), by_rank.end());
  return {*largest, static_cast<std::int32_t>(largest - by_rank.begin())};
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

UnitCost unit_cost(const StepProblem& problem, std::int32_t rank) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= problem.choices.most_merged; group *= 2) {
    cost.forward.push_back(
        rank_cost(problem.cost, problem.job.layout, rank, Pass::kForward, group));
    cost.backward.push_back(
        rank_cost(problem.cost, problem.job.layout, rank, Pass::kBackward, group));
  }
  return cost;
}

}  // namespace slimpack
