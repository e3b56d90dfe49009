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

bool has_input(const Action& action, std::size_t stages) {
  if (action.pass == Pass::kWeightGradient || is_joint(action.pass)) return false;
  return action.stage.index() != (action.pass == Pass::kForward ? 0 : stages - 1);
}

bool has_output(const Action& action, std::size_t stages) {
  if (action.pass == Pass::kWeightGradient || is_joint(action.pass)) return false;
  return action.stage.index() != (action.pass == Pass::kForward ? stages - 1 : 0);
}

}  // namespace slimpack
