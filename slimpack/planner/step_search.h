// Step search: shares the step out to units, and finds the best way to run each unit.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/step_shares.h"
#include "slimpack/planner/unit_search.h"
#include "slimpack/solver/assign.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// A whole step: every unit with its best plan.
struct StepSolution {
  std::vector<Unit> units;
  std::vector<RatedUnit> rated;  ///< by unit
  Nanos makespan;                ///< of the slowest unit, until its last action ends
};

/// The result of a search.
struct StepSearchResult {
  std::optional<StepSolution> solution;
  /// Without a solution: what the units that do not fit need at least, in the variant that needs
  /// least. 0 = not known: the time ran out, or the request does not want it.
  RankNeed least_need;
  /// The favourites of the heaviest unit of the assignment that is looked at first.
  std::vector<Candidate> favourites;
  /// Nanoseconds: the heaviest unit's makespan without a memory cap, in the quickest variant.
  double unlimited = std::numeric_limits<double>::infinity();
};

/// 1. The assignment whose heaviest unit is lightest is looked at first: the unmerged one, unless
///    merging makes it notably lighter. Its heaviest unit is explored. Every other unit begins with
///    the best candidate of the heaviest. Then the slowest unit goes on, again and again, as only
///    this shortens the step. This ends when the slowest unit is exhausted, or after a few more
///    candidates per unit.
/// 2. Where exact answers are asked for, the slowest units also rate exact packs, and step 1 is
///    done again for an exact balance.
/// 3. Other assignments are tried where a sequence outweighs half a replica, or where memory makes
///    the heaviest unit slower; the one that levelled() makes, in any case. A few candidates of
///    each one's heaviest unit show which look best. The best-looking ones are searched as in 1,
///    the others only if nothing fits. Left out are those that cannot be below the request's limit
///    and, unless the request asks for them, costly ones that are much heavier than another one.
/// 4. Slices and exchanges cost more than a sequence as a whole. The best step says how much more
///    on groups of each size; with that, sequences are shared out once more.
/// 5. Where the request names no candidates: if the step waits for a group of replicas, the group
///    looks for cuts of its own.
/// More effort looks wider.
/// `shares`: the ways to share the step out. Deterministic without a deadline. When the deadline
/// has passed, the best so far is the solution.
[[nodiscard]] StepSearchResult search_step(const SearchRequest& request, const StepShares& shares);

/// Searches shares.fitted alone, then the fitted assignment in which slices and exchanges cost what
/// they cost in the step found. Both may be cut in any way. REQUIRES: shares.fitted.
[[nodiscard]] StepSearchResult search_fitted(const SearchRequest& request,
                                             const StepShares& shares);

/// Takes the first look of search_step. It finds favourites and the makespan without a cap besides
/// solutions. They do not depend on the memory cap.
[[nodiscard]] StepSearchResult explore_step(const SearchRequest& request, const StepShares& shares);

}  // namespace slimpack
