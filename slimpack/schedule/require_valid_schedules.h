// Schedules that come from outside, refused unless they are correct.
#pragma once

#include <span>
#include <string_view>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// Throws InvalidInput naming `origin` and the first broken rule: one schedule for each replica,
/// with the plan's stages, and check_step_schedules. REQUIRES: check_plan is empty.
void require_valid_schedules(const StepPlan& plan, std::span<const Schedule> schedules,
                             std::string_view origin);

}  // namespace slimpack
