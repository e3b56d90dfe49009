// Balance (docs/solver.md, phase 1): items, usually whole sequences, to replicas, so that the
// highest load is as low as possible.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/milp/solve.h"

namespace slimpack {

/// A replica before it gets items. Its load is carried + Σ work of its items / speed.
struct BalanceReplica {
  double speed = 1;    ///< work per nanosecond, > 0
  double carried = 0;  ///< nanoseconds of work that it has already, ≥ 0

  bool operator==(const BalanceReplica&) const = default;
};

struct BalanceProblem {
  std::vector<double> work;  ///< by item: nanoseconds at speed 1, ≥ 0
  std::vector<BalanceReplica> replicas;
};

struct Balance {
  std::vector<std::int32_t> replica;  ///< by item
  std::vector<double> load;           ///< by replica, nanoseconds
  double largest = 0;                 ///< of the loads
  double bound = 0;                   ///< no assignment has a lower largest load

  bool operator==(const Balance&) const = default;
};

/// The loads of an assignment. Where rounding puts the bound above the largest load, it is lowered
/// to that. REQUIRES: a replica of the problem for every item.
[[nodiscard]] Balance balance_of(const BalanceProblem& problem, std::vector<std::int32_t> replica,
                                 double bound);

/// Longest processing time first, then moves and swaps from the most loaded replica, until each
/// would make another replica as heavy. Ties go to the lowest index, so the same problem gives the
/// same answer. The bound is `balance_bound`.
/// REQUIRES: a replica; finite work ≥ 0, carried ≥ 0, speed > 0 (else a SLIMPACK_CHECK fails).
/// Cost: O(items · (distinct speeds + log (items · replicas))); the moves and swaps look at no more
/// than 16 · items + 400,000 pairs.
[[nodiscard]] Balance balance(const BalanceProblem& problem);

/// The greatest of three bounds on every assignment: the level of the work when it is poured like
/// water onto the carried loads; the end of the largest item on the replica where it ends earliest;
/// and, when all speeds are equal, the k+1 lightest of the k·n+1 heaviest items and carried loads,
/// for every k, because some k+1 of these share one of n replicas.
/// REQUIRES: as balance. Cost: O(items log items + replicas log replicas).
[[nodiscard]] double balance_bound(const BalanceProblem& problem);

/// The most items × replicas of balance_exact: larger programs take time and find nothing.
inline constexpr std::size_t kMaxExactBalance = 4096;

/// Continues from `start` with a mixed-integer program. The answer is never worse than `start`. Its
/// bound is the greater of balance_bound and the solver's, which is lowered by 1e-6 for its
/// tolerances. When `largest` and `bound` are that near, the assignment is proven best. The same
/// arguments give the same answer unless limits.seconds ends the search.
/// REQUIRES: as balance; `start` is an assignment for `problem`; items × replicas ≤
/// kMaxExactBalance. Cost: up to the limits; 20 items on 3 replicas take about a second to prove.
[[nodiscard]] Balance balance_exact(const BalanceProblem& problem, const Balance& start,
                                    const milp::SolveLimits& limits);

}  // namespace slimpack
