// Why nothing fits, and what would.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/recompute_search.h"

namespace slimpack {

/// `least`: of any plan of the step, which does not fit. Finds the longest sequence that would fit
/// by bisection. Cost: a search for the step of one sequence at each bisection.
[[nodiscard]] DoesNotFit refusal(const StepQuestion& question, const LeastNeed& least);

}  // namespace slimpack
