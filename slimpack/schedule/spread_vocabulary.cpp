// Steps of with_vocabulary: find the tick of each E, H and G from those of the other actions; put
// them between these.
#include "slimpack/schedule/spread_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/ticks.h"

namespace slimpack {
namespace {

void add(std::vector<Nanos>& to, const std::vector<Nanos>& more) {
  for (std::size_t p = 0; p < to.size(); ++p) to[p] += more[p];
}

Nanos mean(const std::vector<Nanos>& times) {
  Nanos sum;
  for (const Nanos time : times) sum += time;
  return times.empty() ? sum : Nanos(sum.count() / static_cast<std::int64_t>(times.size()));
}

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

void fold_vocabulary(TaskTimes& times) {
  const std::size_t ranks = times.ranks();
  Nanos forward;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const Pass pass : kJointPasses) {
      const std::vector<Nanos>& joint = times.joint[joint_index(pass)];
      if (runs_forward_packs(pass)) {
        add(times.forward[r], joint);
        continue;
      }
      add(times.backward[r], joint);
      if (!times.input_gradient.empty()) add(times.input_gradient[r], joint);
    }
    forward = std::max(forward, mean(times.forward[r]));
  }
  for (Nanos& transfer : times.backward_transfer) transfer += forward;
}

void fold_vocabulary(TaskBytes& bytes, std::size_t ranks) {
  const auto at_least = [](Bytes& peak, Bytes other) { peak = std::max(peak, other); };
  const auto joint = [&](Pass pass, std::size_t p) {
    return bytes.joint_transient[joint_index(pass)][p];
  };
  const std::size_t last = bytes.rows.size() - 1;
  for (std::size_t f = 0; f < bytes.forward_input.size(); ++f) {
    const Bytes row = bytes.forward_input[f];
    for (std::size_t r = 0; r < ranks; ++r)
      at_least(bytes.forward_transient[r][f], joint(Pass::kEmbedding, f));
    bytes.forward_transient[0][f] += row;  // the next one's, looked up before this one runs
    bytes.rows[last][f] += row;            // the head's input, then its gradient
  }
  for (std::size_t b = 0; b < bytes.backward_input.size(); ++b) {
    for (std::size_t r = 0; r < ranks; ++r)
      for (const Pass pass : {Pass::kHead, Pass::kEmbeddingGradient}) {
        at_least(bytes.backward_transient[r][b], joint(pass, b));
        if (!bytes.input_transient.empty()) at_least(bytes.input_transient[r][b], joint(pass, b));
      }
    bytes.backward_transient[0][b] += bytes.backward_input[b];  // the one before, for G
    if (!bytes.input_transient.empty()) bytes.input_transient[0][b] += bytes.backward_input[b];
  }
}

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
