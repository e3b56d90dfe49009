// Unit tasks: what the packs of a unit's replicas cost. What several replicas run together is
// costed once.
#pragma once

#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// By replica of the unit: task_times, a spread vocabulary folded (vocabulary_planning.h), here and
/// in bytes. `packs`: by replica, as cut_unit made them.
/// Cost: O(stages · packs) of all replicas, O(slices) of those that differ.
[[nodiscard]] std::vector<TaskTimes> unit_times(const StepProblem& problem, const Unit& unit,
                                                const std::vector<PackPlan>& packs);

/// By replica of the unit: task_bytes with what is in flight. `replicas` have packs as above.
void add_unit_bytes(const StepProblem& problem, const Unit& unit,
                    std::vector<ReplicaPacks>& replicas);

}  // namespace slimpack
