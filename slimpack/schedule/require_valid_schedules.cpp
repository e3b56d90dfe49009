#include "slimpack/schedule/require_valid_schedules.h"

#include "slimpack/base/error.h"

namespace slimpack {

void require_valid_schedules(const StepPlan& plan, std::span<const Schedule> schedules,
                             std::string_view origin) {
  if (schedules.size() != plan.replicas.size())
    invalid_input("{}: {} schedules for {} replicas; plan again", origin, schedules.size(),
                  plan.replicas.size());
  for (const Schedule& schedule : schedules)
    if (schedule.stages.size() != static_cast<std::size_t>(plan.layout.stages()))
      invalid_input("{}: the schedule has {} stages, the plan has {}; plan again", origin,
                    schedule.stages.size(), plan.layout.stages());
  const auto errors = check_step_schedules(plan, schedules);
  if (!errors.empty())
    invalid_input("{}: not a correct schedule: {}; plan again", origin, errors.front());
}

}  // namespace slimpack
