#include "slimpack/sim/lower.h"

#include <algorithm>

#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

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
