// Unit tasks: the costs of the packs of a unit's replicas. A pack that several replicas run
// together is costed once.
#pragma once

#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/solver/unit_cut.h"

namespace slimpack {

/// StageTable::times of each replica of the unit. A spread vocabulary is folded
/// (spread_vocabulary.h), here and in bytes. `packs`: by replica, as cut_unit made them.
/// Cost: O(stages · packs) of all replicas, O(slices) of those that differ.
[[nodiscard]] std::vector<TaskTimes> unit_times(const StepProblem& problem, const Unit& unit,
                                                const std::vector<PackPlan>& packs);

/// Adds to each replica of the unit StageTable::bytes and what is in flight. `replicas` have packs
/// as cut_unit made them.
void add_unit_bytes(const StepProblem& problem, const Unit& unit,
                    std::vector<ReplicaPacks>& replicas);

}  // namespace slimpack
