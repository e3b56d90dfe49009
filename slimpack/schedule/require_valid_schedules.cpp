#include "slimpack/schedule/require_valid_schedules.h"

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// Kind: Schedule or LoweredSchedule.
template <class Kind>
void require_sizes(const StepPlan& plan, std::span<const Kind> schedules, std::string_view origin) {
  if (schedules.size() != plan.replicas.size())
    invalid_input("{}: {} schedules for {} replicas; plan again", origin, schedules.size(),
                  plan.replicas.size());
  for (const Kind& schedule : schedules) {
    if (schedule.ranks.size() != static_cast<std::size_t>(plan.layout.ranks()))
      invalid_input("{}: the schedule has {} ranks, the plan has {}; plan again", origin,
                    schedule.ranks.size(), plan.layout.ranks());
    if (schedule.placement != plan.layout.placement)
      invalid_input("{}: the schedule places its {} stages unlike the plan; plan again", origin,
                    schedule.stages());
  }
}

void require_none(const std::vector<std::string>& errors, std::string_view origin) {
  if (!errors.empty())
    invalid_input("{}: not a correct schedule: {}; plan again", origin, errors.front());
}

}  // namespace

void require_valid_schedules(const StepPlan& plan, std::span<const Schedule> schedules,
                             std::string_view origin) {
  require_sizes(plan, schedules, origin);
  require_none(check_step(plan, schedules), origin);
}

void require_valid_lowered(const StepPlan& plan, std::span<const LoweredSchedule> lowered,
                           std::string_view origin) {
  require_sizes(plan, lowered, origin);
  require_none(check_lowered(plan, lowered), origin);
}

}  // namespace slimpack
