#include "slimpack/planner/step_shares.h"

#include <span>

namespace slimpack {
namespace {

/// Each merge of `levelled` has to take this share off a load.
constexpr double kLeastLevelled = 0.01;

}  // namespace

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
  const bool merges = problem.choices.most_merged > 1;
  const std::vector<double> speed = replica_speeds(problem);
  const std::vector<PackCost> groups = group_costs(problem);
  const AssignProblem assigned{problem.lengths, speed, groups};
  const std::span<const double> thresholds = kMergeAbove;
  StepShares shares;
  shares.assignments = assignments(assigned, merges ? thresholds : thresholds.first(1));
  shares.levelled = shares.assignments.front();
  if (merges) shares.levelled = levelled(assigned, std::move(shares.levelled), kLeastLevelled);
  return shares;
}

}  // namespace slimpack
