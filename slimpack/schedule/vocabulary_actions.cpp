// Steps: find the tick of each E, H and G from those of the other actions; put them between these.
#include "slimpack/schedule/vocabulary_actions.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/ticks.h"

namespace slimpack {
namespace {

/// An action of all ranks, between the two halves of a tick.
struct JointAction {
  std::int64_t tick;
  Pass pass;
  PackId pack;
};

/// In their order: of a tick first G, which frees, then E, then H.
std::vector<JointAction> joint_actions(const PackPlan& packs, const StepGraph& graph,
                                       std::size_t replica, std::size_t stages) {
  std::vector<JointAction> all;
  const StageId first(0), last(stages - 1);
  const auto tick_of = [&](StageId stage, Pass pass, std::size_t pack) {
    return graph.node(replica, stage, pass, PackId(pack)).start / 2;
  };
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    all.push_back({tick_of(first, Pass::kBackward, b) + 1, Pass::kEmbeddingGradient, PackId(b)});
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    all.push_back({tick_of(first, Pass::kForward, f) - 1, Pass::kEmbedding, PackId(f)});
  const std::vector<std::int32_t> needed = running_needs(packs);
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    all.push_back({tick_of(last, Pass::kForward, static_cast<std::size_t>(needed[b]) - 1),
                   Pass::kHead, PackId(b)});
  std::ranges::stable_sort(all, {}, &JointAction::tick);
  return all;
}

/// The actions of a rank, with those of all ranks between them.
std::vector<Action> merged(std::span<const StepNode> nodes, const std::vector<JointAction>& joint,
                           StageId rank_stage) {
  std::vector<Action> out;
  auto next = joint.begin();
  for (const StepNode& node : nodes) {
    // Weight gradients follow the input gradients that they belong to.
    if (node.action.pass != Pass::kWeightGradient)
      for (; next != joint.end() && 2 * next->tick < node.start; ++next)
        out.push_back({rank_stage, next->pass, next->pack});
    out.push_back(node.action);
  }
  for (; next != joint.end(); ++next) out.push_back({rank_stage, next->pass, next->pack});
  return out;
}

}  // namespace

std::vector<Schedule> with_vocabulary(const StepPlan& plan, std::vector<Schedule> schedules,
                                      int slots) {
  if (!plan.layout.spread_vocabulary) return schedules;
  const StepGraph graph = ticks(plan, schedules, slots);
  std::vector<Schedule> out;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    Schedule& own = out.emplace_back(Schedule{{}, schedules[r].placement, schedules[r].exchanges});
    const std::vector<JointAction> joint =
        joint_actions(plan.replicas[r].packs, graph, r, schedules[r].stages());
    for (std::size_t p = 0; p < schedules[r].ranks.size(); ++p)
      own.ranks.push_back(
          merged(graph.rank(r, p), joint, own.placement.stage(static_cast<std::int32_t>(p), 0)));
  }
  return out;
}

}  // namespace slimpack
