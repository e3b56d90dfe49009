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
  std::int32_t tick;
  Pass pass;
  PackId pack;
};

/// In their order: of a tick first G, which frees, then E, then H.
std::vector<JointAction> joint_actions(const PackPlan& packs, const Ticks& ticks,
                                       std::size_t replica, std::size_t stages) {
  std::vector<JointAction> all;
  const StageId first(0), last(stages - 1);
  const auto tick_of = [&](StageId stage, Pass pass, std::size_t pack) {
    return ticks.of(replica, {stage, pass, PackId(pack)}) / 2;
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

std::vector<Action> merged(const std::vector<Action>& actions,
                           const std::vector<JointAction>& joint, const Ticks& ticks,
                           std::size_t replica, StageId rank_stage) {
  std::vector<Action> out;
  auto next = joint.begin();
  for (const Action& action : actions) {
    // Weight gradients follow the input gradients that they belong to.
    if (action.pass != Pass::kWeightGradient)
      for (const Ticks::Half half = ticks.of(replica, action);
           next != joint.end() && 2 * next->tick < half; ++next)
        out.push_back({rank_stage, next->pass, next->pack});
    out.push_back(action);
  }
  for (; next != joint.end(); ++next) out.push_back({rank_stage, next->pass, next->pack});
  return out;
}

}  // namespace

std::vector<Schedule> with_vocabulary(const StepPlan& plan, std::vector<Schedule> schedules,
                                      int slots) {
  if (!plan.layout.spread_vocabulary) return schedules;
  const Ticks ticks(plan, schedules, slots);
  std::vector<Schedule> out;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    Schedule& own = out.emplace_back(Schedule{{}, schedules[r].placement, schedules[r].exchanges});
    const std::vector<JointAction> joint =
        joint_actions(plan.replicas[r].packs, ticks, r, schedules[r].stages());
    for (std::size_t p = 0; p < schedules[r].ranks.size(); ++p)
      own.ranks.push_back(merged(schedules[r].ranks[p], joint, ticks, r,
                                 own.placement.stage(static_cast<std::int32_t>(p), 0)));
  }
  return out;
}

}  // namespace slimpack
