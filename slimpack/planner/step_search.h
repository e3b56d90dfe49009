// Step search: shares the step out to units, and finds the best way to run each unit.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/planner/step_problem.h"
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

/// What a search found.
struct StepSearchResult {
  std::optional<StepSolution> solution;
  /// Without a solution: what the units that do not fit need at least, in the variant that needs
  /// least. 0 = not known: the time ran out, or the problem asks only for steps below a makespan.
  StageNeed least_need;
  std::vector<Candidate> favourites;  ///< UnitSearch::favourites of the heaviest unmerged unit
};

/// 1. The sequences are assigned to replicas unmerged. The heaviest unit is explored. Every other
///    unit begins with the best candidate of the heaviest. Then the slowest unit goes on, again and
///    again, as only this shortens the step. This ends when the slowest unit is exhausted, or after
///    a few more candidates per unit.
/// 2. Where exact answers are asked for, the slowest units also rate exact packs, and step 1 is
///    done again for an exact balance. Where whole sequences leave the replicas with unlike loads,
///    step 1 is done again for the assignment that levelled() makes.
/// 3. Merging is tried where a sequence outweighs half a replica, or where memory makes the
/// heaviest
///    unit slower. Each threshold that makes a difference gives a variant. A few candidates of each
///    variant's heaviest unit show which variants look best. Those are searched as in 1, the others
///    only if nothing fits.
/// More effort looks wider.
/// REQUIRES: a problem that is paced. Deterministic without a deadline. When the deadline has
/// passed, the best so far is the solution.
[[nodiscard]] StepSearchResult search_step(const StepProblem& problem);

}  // namespace slimpack
