#include "slimpack/planner/step_shares.h"

#include <span>

namespace slimpack {

std::vector<double> replica_speeds(const StepProblem& problem) {
  std::vector<double> out;
  out.reserve(problem.pacing.size());
  for (const Pacing& pacing : problem.pacing) out.push_back(pacing.speed);
  return out;
}

std::vector<PackCost> group_costs(const StepProblem& problem) {
  const UnitCost cost = unit_cost(problem, problem.pacing.front().rank);
  std::vector<PackCost> out;
  for (std::size_t k = 0; k < cost.forward.size(); ++k)
    out.push_back(cost.forward[k] + cost.backward[k]);
  return out;
}

StepShares step_shares(const StepProblem& problem) {
  const MergeSearch& merging = problem.choices.search.merging;
  const bool merges = problem.choices.most_merged > 1;
  const std::vector<double> speed = replica_speeds(problem);
  const std::vector<PackCost> groups = group_costs(problem);
  const std::span<const double> thresholds = merging.above;
  StepShares shares;
  shares.assignments =
      assignments(problem.lengths, speed, groups, merges ? thresholds : thresholds.first(1));
  shares.levelled = shares.assignments.front();
  if (merges && merging.levelled)
    shares.levelled =
        levelled(problem.lengths, speed, groups, std::move(shares.levelled), merging.unlike);
  return shares;
}

}  // namespace slimpack
