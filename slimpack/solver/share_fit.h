// Share fit: puts the items of a share bound onto groups of replicas, so that the step is short.
#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/solver/share_bound.h"

namespace slimpack {

/// A group of 2^k neighbouring replicas, the first of which is a multiple of 2^k.
struct GroupPlace {
  std::size_t k = 0;
  std::size_t first = 0;

  bool operator==(const GroupPlace&) const = default;
};

/// Items on groups.
struct ShareFit {
  std::vector<GroupPlace> place;  ///< by item
  std::vector<double> load;       ///< by replica: around + Σ load of its items / speed
  double step = 0;  ///< no shorter than each load, each item's step, and `more` poured around them
};

/// A short step, found by bisection: for a given step the items, by falling load, each go to the
/// smallest groups that may run them; of these to the fullest one that has room for it. Where none
/// has, the next larger groups are asked. If something does not fit so, all items take groups of
/// two or more, of four or more, …; at last each takes the group that is done with it first. The
/// same problem gives the same answer.
/// REQUIRES: as share_bound; every item may run on some group.
/// Cost: of each of some twenty steps tried, O(items · replicas · sizes of groups).
[[nodiscard]] ShareFit share_fit(const ShareProblem& problem);

}  // namespace slimpack
