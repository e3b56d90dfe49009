#include "slimpack/schedule/lowered_schedule.h"

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/step_graph.h"

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

std::vector<LoweredSchedule> lower(std::span<const ReplicaPacks> replicas,
                                   std::span<const Schedule> orders, int slots) {
  const StepGraph graph = timed_graph(replicas, orders, slots);
  std::vector<StepGraph::Event> events = graph.events();
  // Events at one time stay in the order of the graph: an event comes before those that wait for
  // it.
  std::ranges::stable_sort(events, {}, &StepGraph::Event::time);
  std::vector<LoweredSchedule> lowered;
  for (const Schedule& order : orders)
    lowered.push_back({std::vector<std::vector<Instruction>>(order.ranks.size()), order.placement,
                       order.exchanges});
  for (const StepGraph::Event& event : events) {
    LoweredSchedule& own = lowered[event.replica];
    const auto add = [&](Operation operation, const Action& action) {
      own.ranks[static_cast<std::size_t>(own.placement.rank_of(action.stage))].push_back(
          {operation, action});
    };
    const StepNode& node = graph.node(event.node);
    if (!event.is_put) {
      add(Operation::kCompute, node.action);
    } else if (node.leaves_rank) {
      const Pass pass = message_pass(node.action.pass);
      add(Operation::kSend, {node.action.stage, pass, node.action.pack});
      const StageId receiver = graph.node(node.receiver).action.stage;
      add(Operation::kReceive, {receiver, pass, node.action.pack});
    }
  }
  return lowered;
}

std::vector<LoweredSchedule> lower(const StepPlan& plan, std::span<const Schedule> orders) {
  std::vector<ReplicaPacks> replicas;
  const Schedule& any = orders.front();
  for (const ReplicaPlan& replica : plan.replicas)
    replicas.push_back(
        {replica.packs, counted_times(replica.packs, any.stages(), any.ranks.size()), {}});
  return lower(replicas, orders);
}

}  // namespace slimpack
