// Exact packs: MicroPacks of a unit from mixed-integer programs, as further candidates.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/milp/solve.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// Both passes of a single replica by exact_cut, each with at most `packs` MicroPacks. The grid is
/// the finest that keeps granules × MicroPacks within request.depth.exact.size; the start is the
/// fluid cut on it. As far as the order within sequences allows, forward MicroPacks of long
/// sequences go first, and backward MicroPacks whose forward is complete first. nullopt when the
/// unit has several replicas, nothing to run or too many sequences. REQUIRES: packs ≥ 1. Cost: up
/// to the limits, twice.
[[nodiscard]] std::optional<PackPlan> exact_packs(const SearchRequest& request, const Unit& unit,
                                                  int packs, const milp::SolveLimits& limits);

}  // namespace slimpack
