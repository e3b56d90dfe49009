#include "slimpack/schedule/lowered_schedule.h"

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
  const bool forward = action.pass == Pass::kForward;
  if (!forward && !goes_back(action.pass)) return std::nullopt;
  if (action.stage.index() == (forward ? 0 : stages - 1)) return std::nullopt;
  return StageId(action.stage.value() + (forward ? -1 : 1));
}

std::optional<StageId> target_stage(const Action& action, std::size_t stages) {
  const bool forward = action.pass == Pass::kForward;
  if (!forward && !goes_back(action.pass)) return std::nullopt;
  if (action.stage.index() == (forward ? stages - 1 : 0)) return std::nullopt;
  return StageId(action.stage.value() + (forward ? 1 : -1));
}

}  // namespace slimpack
