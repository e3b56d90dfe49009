#include "slimpack/planner/step_shares.h"

#include <algorithm>
#include <span>
#include <utility>

namespace slimpack {
namespace {

/// Each merge of `levelled` has to take this share off a load.
constexpr double kLeastLevelled = 0.01;

}  // namespace

double highest_load(const Assignment& assignment) {
  return *std::ranges::max_element(assignment.load);
}

double lightest_load(const StepShares& shares) {
  double lightest = highest_load(shares.levelled);
  for (const Assignment& assignment : shares.assignments)
    lightest = std::min(lightest, highest_load(assignment));
  return lightest;
}

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
  if (!merges) return shares;
  shares.levelled = levelled(assigned, std::move(shares.levelled), kLeastLevelled);
  shares.fitted = fitted(assigned, kNotablyLighter * lightest_load(shares));
  return shares;
}

}  // namespace slimpack
