// Step shares: the ways of sharing a step's sequences out that a search compares.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "slimpack/planner/step_problem.h"
#include "slimpack/solver/assign.h"

namespace slimpack {

/// A sequence is merged above so many times the least load (assign.h). Each is tried; the first
/// stands for "never".
inline constexpr std::array kMergeAbove = {std::numeric_limits<double>::infinity(),
                                           2.0,
                                           1.5,
                                           1.2,
                                           1.0,
                                           0.7,
                                           0.5,
                                           0.35,
                                           0.25,
                                           0.12,
                                           0.06,
                                           0.03,
                                           0.0};

/// An assignment is notably lighter than another if its highest load is below this share of the
/// other's.
inline constexpr double kNotablyLighter = 0.99;

/// They depend on the costs little enough that all recomputations take those of the quickest.
struct StepShares {
  std::vector<Assignment> assignments;  ///< unmerged, then of each threshold that differs
  Assignment levelled;                  ///< as the first where merging does not level the loads
  /// The fitted one, where its highest load is notably lower than those of all others: where it is
  /// only a little lower, more groups cost more than that.
  std::optional<Assignment> fitted;
};

/// The highest load of a replica, in nanoseconds.
[[nodiscard]] double highest_load(const Assignment& assignment);

/// The least highest load of all but the fitted assignment.
[[nodiscard]] double lightest_load(const StepShares& shares);

/// Cost: as `assignments` and `fitted`.
[[nodiscard]] StepShares step_shares(const StepProblem& problem);

/// The speed of each replica.
[[nodiscard]] std::vector<double> replica_speeds(const StepProblem& problem);

/// Forward and backward of a sequence on groups of 1, 2, 4, … replicas, as `assign` takes them.
[[nodiscard]] std::vector<PackCost> group_costs(const StepProblem& problem);

}  // namespace slimpack
