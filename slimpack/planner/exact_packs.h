// Exact packs: MicroPacks of a unit from mixed-integer programs, as further candidates.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/milp/solve.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// Both passes of a single replica by exact_cut with at most so many MicroPacks, on the finest grid
/// that keeps granules × MicroPacks within problem.depth.exact.size; from the fluid cut on that
/// grid. Forward, MicroPacks of long sequences go first where the sequences' order allows;
/// backward, those whose forward is complete first. nullopt when the unit has several replicas or
/// nothing to run, or when it has too many sequences. REQUIRES: packs ≥ 1. Cost: up to the limits,
/// twice.
[[nodiscard]] std::optional<PackPlan> exact_packs(const StepProblem& problem, const Unit& unit,
                                                  int packs, const milp::SolveLimits& limits);

}  // namespace slimpack
