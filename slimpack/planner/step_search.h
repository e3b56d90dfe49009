// Step search: which replicas run what together, and each unit's best way to run it.
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

/// What a search found: a solution, or what the unit that does not fit needs at least (0 where the
/// problem asks for a solution below a makespan that there is already).
struct StepSearchResult {
  std::optional<StepSolution> solution;
  StageNeed least_need;
  std::vector<Candidate> favourites;  ///< of the heaviest unit without merging, as UnitSearch's
};

/// 1. The sequences are assigned to replicas unmerged. The heaviest unit is explored, every other
///    one begins with what was best there, and then always the slowest unit goes on, until it is
///    exhausted or a few more candidates per unit have been looked at: nothing else shortens the
///    step.
/// 2. Where exact answers are asked for, the slowest units rate exact packs as well, and 1 is done
///    again for an exact balance; and where whole sequences leave replicas unlike, for an
///    assignment that is levelled() by merging.
/// 3. Where a sequence outweighs half a replica or memory makes the heaviest unit slower, merging
///    is tried: one variant for each threshold that makes a difference. A few candidates of the
///    heaviest unit of each show which look best; those are searched as in 1, the others only if
///    nothing fits.
/// More effort looks wider.
/// REQUIRES: a problem that is paced. Deterministic without a deadline. After it nothing more is
/// looked at: the best so far is the solution, or there is none and no least_need.
[[nodiscard]] StepSearchResult search_step(const StepProblem& problem);

}  // namespace slimpack
