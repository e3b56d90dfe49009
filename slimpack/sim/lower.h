// Lowering: from the order of actions to what every rank does, with its sends and receives.
#pragma once

#include <span>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// By replica what its ranks do. Each rank posts a receive before the action that it runs when the
/// message leaves in the simulation, no earlier: so the message travels meanwhile, and what the
/// rank posts never depends on what it has yet to run. check_lowered accepts the result, and the
/// step takes as long as simulate() says. REQUIRES: as simulate(); bytes are not needed.
/// Cost: O(actions · log(actions)).
[[nodiscard]] std::vector<LoweredSchedule> lower(std::span<const ReplicaPacks> replicas,
                                                 std::span<const Schedule> schedules,
                                                 int slots = kChannelSlots);

/// Lowers a plan without known costs, as if a backward took as long as two forwards.
/// REQUIRES: check_plan and check_step are empty.
[[nodiscard]] std::vector<LoweredSchedule> lower(const StepPlan& plan,
                                                 std::span<const Schedule> schedules);

}  // namespace slimpack
