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

/// What a search found: a solution, or what the unit that does not fit needs at least.
struct StepSearchResult {
  std::optional<StepSolution> solution;
  StageNeed least_need;
};

/// 1. The sequences are assigned to replicas, with the longest of them merged or not: one variant
///    for each threshold of merging that makes a difference.
/// 2. The heaviest unit of every variant is explored; the variants with the best scores are
///    searched, the others only if none of them fits.
/// 3. To search a variant, its heaviest unit is explored, every other unit begins with the
/// candidate
///    that was best there, and then always the slowest unit goes on, until it is exhausted or
///    a few more candidates per unit have been looked at: nothing else shortens the step.
/// Deterministic.
[[nodiscard]] StepSearchResult search_step(const StepProblem& problem);

}  // namespace slimpack
