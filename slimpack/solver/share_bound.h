// Share bound: items that one replica runs alone, or a group of replicas together (DP-Merge). How
// long a step is at least, whichever groups run them.
#pragma once

#include <vector>

namespace slimpack {

/// Items below this share of a replica's time count with their work alone.
inline constexpr double kLeastShare = 1.0 / 16;

/// In a step that is shorter than `below` an item's load is at least so much.
struct CutLoad {
  double below = 0;
  double load = 0;
};

/// Entry k of a list is about a group of 2^k replicas. A larger group spends no less on an item,
/// all replicas together.
struct ShareProblem {
  /// [k][item]: what each replica of the group spends on it, at speed 1, > 0.
  std::vector<std::vector<double>> load;
  /// [k][item]: no step is shorter in which such a group runs it.
  std::vector<std::vector<double>> step;
  /// The work of each replica in a nanosecond, relative to speed 1, > 0.
  std::vector<double> speed;
  double around = 0;  ///< what every replica that runs items has beside them
  double more = 0;    ///< what all replicas together spend beside that, at speed 1
  /// [k][item], or empty: short steps take an item in many slices. An entry with a smaller `below`
  /// has a larger load.
  std::vector<std::vector<std::vector<CutLoad>>> cut = {};
};

/// No assignment of the items to groups gives a shorter step, or `known` if that is longer. In a
/// step of T every item runs on a group with step ≤ T. The least time that its replicas spend
/// together is then known, and must fit between T − around and the speeds. Replicas of one speed
/// are bins besides: for every function f of a share of a bin's time that is dual feasible (shares
/// that fit into a bin have f of at most 1 together; Fekete and Schepers, 2001), Σ 2^k · f(load)
/// must not be more than the bins. REQUIRES: an item; a replica; known ≥ 0, no step is shorter.
/// Cost: O(items log items) and, for each of some forty steps tried, O(items that are merged, or
/// more than a sixteenth of a bin).
[[nodiscard]] double share_bound(const ShareProblem& problem, double known);

}  // namespace slimpack
