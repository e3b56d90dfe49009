// Balance (design §5, phase 1): items, usually whole sequences, to replicas, so that the most
// loaded replica is as light as can be.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/milp/solve.h"

namespace slimpack {

/// What one replica starts with. Its load is carried + Σ work of its items / speed.
struct BalanceReplica {
  double speed = 1;    ///< work per nanosecond, > 0
  double carried = 0;  ///< nanoseconds it has to do already, ≥ 0

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

/// The loads of an assignment. The bound is lowered to the largest load where rounding put it
/// above. REQUIRES: a replica of the problem for every item.
[[nodiscard]] Balance balance_of(const BalanceProblem& problem, std::vector<std::int32_t> replica,
                                 double bound);

/// Longest processing time first, then moves and swaps from the most loaded replica until none
/// makes it lighter without making another as heavy. Ties go to the lowest index, so the same
/// problem gives the same answer. The bound is `balance_bound`.
/// REQUIRES: a replica; finite work ≥ 0, carried ≥ 0, speed > 0 (else a SLIMPACK_CHECK fails).
/// Cost: O(items · replicas + items log items); the moves and swaps look at no more than
/// 16 · items + 400,000 pairs. 4,096 log-normal items on 64 replicas: 1 ms; 200,000: 60 ms.
[[nodiscard]] Balance balance(const BalanceProblem& problem);

/// The greatest of what holds for every assignment: the work poured like water onto the carried
/// loads; the largest item where it ends earliest; and, when all speeds are equal, that of the
/// k·n+1 heaviest of items and carried loads some k+1 share one of n replicas, for every k.
/// REQUIRES: as balance. Cost: O(items log items + replicas log replicas).
[[nodiscard]] double balance_bound(const BalanceProblem& problem);

/// No more than so many items × replicas: beyond, the model only takes time.
inline constexpr std::size_t kMaxExactBalance = 4096;

/// Continues from `start` with a mixed-integer program: never worse than its start, with the
/// greater of both bounds (the solver's is lowered by 1e-6 for its tolerances). When `largest` and
/// `bound` are that near, the assignment is proven best. The same arguments give the same answer
/// unless limits.seconds ends the search.
/// REQUIRES: as balance; `start` is an assignment for `problem`; items × replicas ≤
/// kMaxExactBalance. Cost: up to the limits; 20 items on 3 replicas take about a second to prove.
[[nodiscard]] Balance balance_exact(const BalanceProblem& problem, const Balance& start,
                                    const milp::SolveLimits& limits);

}  // namespace slimpack
