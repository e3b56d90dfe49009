// Fixed packing as a step: the baseline that `train` runs.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// Best-fit packs of `context` tokens, dealt to the replicas in turn, under plain 1F1B; without a
/// prediction. Throws InvalidInput when a sequence exceeds the context.
[[nodiscard]] PlannedStep packed_step(const StepProblem& problem, Tokens context);

}  // namespace slimpack
