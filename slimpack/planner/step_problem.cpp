#include "slimpack/planner/step_problem.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/cost/pack_cost.h"

namespace slimpack {
namespace {

/// The time of all sequences on each rank at speed 1.
std::vector<double> works_of(const StageTable& table, const WholeSequences& sequences) {
  std::vector<double> works;
  for (std::int32_t r = 0; r < table.layout().ranks(); ++r)
    works.push_back(sequences.time(table.rank(r, Pass::kForward)) +
                    sequences.time(table.rank(r, Pass::kBackward)));
  return works;
}

Pacing pacing_of(const std::vector<double>& works, const Replication& replication,
                 ReplicaId replica) {
  Pacing pacing;
  double longest = -1;
  for (std::size_t r = 0; r < works.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    const double time = works[r] / replication.speed_of(replica, rank);
    if (time > longest) {
      longest = time;
      pacing.rank = rank;
    }
  }
  if (longest > 0) pacing.speed = *std::max_element(works.begin(), works.end()) / longest;
  return pacing;
}

}  // namespace

bool out_of_time(const SearchDepth& depth) {
  return depth.deadline && monotonic_now() >= *depth.deadline;
}

RankNeed largest_need(const std::vector<Bytes>& by_rank) {
  const auto largest = std::max_element(by_rank.begin(), by_rank.end());
  return {*largest, static_cast<std::int32_t>(largest - by_rank.begin())};
}

StepProblem step_problem(const StageTable& table, const SequenceLengths& lengths,
                         const Choices& choices, const std::optional<Bytes>& memory_cap) {
  const std::vector<double> works = works_of(table, WholeSequences(lengths));
  std::vector<Pacing> pacing;
  for (std::int32_t r = 0; r < table.replication().replicas; ++r)
    pacing.push_back(pacing_of(works, table.replication(), ReplicaId(r)));
  return {table, lengths, choices, memory_cap, std::move(pacing)};
}

UnitCost unit_cost(const StepProblem& problem, std::int32_t rank) {
  UnitCost cost;
  for (std::int32_t group = 1; group <= problem.choices.most_merged; group *= 2) {
    cost.forward.push_back(problem.table.rank(rank, Pass::kForward, group));
    cost.backward.push_back(problem.table.rank(rank, Pass::kBackward, group));
  }
  return cost;
}

}  // namespace slimpack
