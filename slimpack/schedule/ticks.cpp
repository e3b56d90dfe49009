#include "slimpack/schedule/ticks.h"

#include <cstdint>
#include <vector>

namespace slimpack {
namespace {

/// How long an action keeps its rank: half a tick, and a whole one if the rank's next action is of
/// the same half.
void set_halves(std::span<StepNode> nodes) {
  const StepNode* next = nullptr;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    StepNode& node = nodes[i];
    if (node.action.pass == Pass::kWeightGradient) continue;
    const auto backward = [](const StepNode& of) { return goes_back(of.action.pass); };
    node.duration = next != nullptr && backward(*next) == backward(node) ? 2 : 1;
    if (node.leaves_rank) node.travel = 2 - node.duration;
    next = &node;
  }
}

}  // namespace

StepGraph ticks(const StepPlan& plan, std::span<const Schedule> orders, int slots) {
  // An action starts with its output sure of a slot: nobody waits in a tick for what comes after.
  StepGraph graph(orders, static_cast<std::size_t>(slots), SlotRule::kStart);
  std::vector<const PackPlan*> packs;
  for (const ReplicaPlan& replica : plan.replicas) packs.push_back(&replica.packs);
  graph.join_merged(packs);
  for (std::size_t r = 0; r < graph.replicas(); ++r)
    for (std::size_t p = 0; p < graph.ranks(); ++p) set_halves(graph.rank(r, p));
  graph.run();
  return graph;
}

}  // namespace slimpack
