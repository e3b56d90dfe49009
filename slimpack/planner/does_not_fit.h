// Why nothing fits, and what would.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// `need`: the least memory of any plan of the step. Finds the longest sequence that would fit by
/// bisection. Cost: a search for the step of one sequence at each bisection.
[[nodiscard]] DoesNotFit refusal(const StepProblem& problem, const RankNeed& need);

}  // namespace slimpack
