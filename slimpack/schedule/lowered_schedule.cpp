#include "slimpack/schedule/lowered_schedule.h"

#include "slimpack/base/error.h"

namespace slimpack {

Schedule actions_of(const LoweredSchedule& lowered) {
  Schedule schedule{{}, lowered.placement, lowered.exchanges};
  for (const std::vector<Instruction>& instructions : lowered.ranks) {
    std::vector<Action>& actions = schedule.ranks.emplace_back();
    for (const Instruction& i : instructions)
      if (i.operation == Operation::kCompute) actions.push_back(i.action);
  }
  return schedule;
}

std::optional<StageId> source_stage(const Action& action, std::size_t stages) {
  if (!passes_rows(action.pass)) return std::nullopt;
  const bool forward = action.pass == Pass::kForward;
  if (action.stage.index() == (forward ? 0 : stages - 1)) return std::nullopt;
  return StageId(action.stage.value() + (forward ? -1 : 1));
}

std::optional<StageId> target_stage(const Action& action, std::size_t stages) {
  if (!passes_rows(action.pass)) return std::nullopt;
  const bool forward = action.pass == Pass::kForward;
  if (action.stage.index() == (forward ? stages - 1 : 0)) return std::nullopt;
  return StageId(action.stage.value() + (forward ? 1 : -1));
}

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
