// Why nothing fits, and what would.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// Fills in a refusal: `need` is the least memory that any plan of the step reached.
/// Cost: a search over a single sequence for each halving of its length.
[[nodiscard]] DoesNotFit refusal(const StepProblem& problem, const StageNeed& need);

}  // namespace slimpack
