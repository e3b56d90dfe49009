#include "slimpack/sim/lower.h"

#include <algorithm>

#include "slimpack/sim/step_log.h"

namespace slimpack {
namespace {

/// The receive of what an instruction sends.
Instruction receive_of(const Instruction& send) {
  Action action = send.action;
  action.stage = StageId(action.stage.value() + (action.pass == Pass::kForward ? 1 : -1));
  return {Operation::kReceive, action};
}

TaskTimes counted_times(const PackPlan& packs, std::size_t stages, std::size_t ranks) {
  const auto all = [&](const std::vector<MicroPack>& of, Nanos time) {
    return std::vector(stages, std::vector<Nanos>(of.size(), time));
  };
  TaskTimes times;
  times.forward = all(packs.forward, Nanos(1));
  times.backward = all(packs.backward, Nanos(2));
  times.input_gradient = times.weight_gradient = all(packs.backward, Nanos(1));
  for (const Pass pass : kJointPasses) times.joint[joint_index(pass)].resize(packs.of(pass).size());
  times.forward_transfer.resize(packs.forward.size());
  times.backward_transfer.resize(packs.backward.size());
  times.reduce.resize(ranks);
  times.step_end.resize(ranks);
  return times;
}

}  // namespace

std::vector<LoweredSchedule> lowered_by(std::vector<LoggedEvent> log,
                                        std::span<const Schedule> schedules) {
  // Events at one time stay in the order of the log: an event comes before those that depend on it.
  std::ranges::stable_sort(log, {}, &LoggedEvent::time);
  const std::size_t ranks = schedules.front().ranks.size();
  std::vector<LoweredSchedule> lowered;
  for (const Schedule& schedule : schedules)
    lowered.push_back(
        {std::vector<std::vector<Instruction>>(ranks), schedule.placement, schedule.exchanges});
  for (const LoggedEvent& event : log) {
    LoweredSchedule& own = lowered[event.replica];
    const auto add = [&](const Instruction& i) {
      own.ranks[static_cast<std::size_t>(own.placement.rank_of(i.action.stage))].push_back(i);
    };
    add(event.instruction);
    if (event.instruction.operation == Operation::kSend) add(receive_of(event.instruction));
  }
  return lowered;
}

std::vector<LoweredSchedule> lower(const StepPlan& plan, std::span<const Schedule> schedules) {
  std::vector<ReplicaPacks> replicas;
  const Schedule& any = schedules.front();
  for (const ReplicaPlan& replica : plan.replicas)
    replicas.push_back(
        {replica.packs, counted_times(replica.packs, any.stages(), any.ranks.size()), {}});
  return lower(replicas, schedules);
}

}  // namespace slimpack
