// Checks schedules that come from outside.
#pragma once

#include <span>
#include <string_view>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// Throws InvalidInput naming `origin` and the first broken rule. There must be one schedule for
/// each replica, with the plan's stages, and check_step must be empty. REQUIRES:
/// check_plan is empty.
void require_valid_schedules(const StepPlan& plan, std::span<const Schedule> schedules,
                             std::string_view origin);

/// Checks lowered schedules in the same way, with check_lowered in place of check_step.
void require_valid_lowered(const StepPlan& plan, std::span<const LoweredSchedule> lowered,
                           std::string_view origin);

}  // namespace slimpack
