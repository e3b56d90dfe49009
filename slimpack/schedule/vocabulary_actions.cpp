// Steps: give every action its tick; find the tick of each E, H and G; put them between the
// actions.
#include "slimpack/schedule/vocabulary_actions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/memory_guard.h"

namespace slimpack {
namespace {

/// Half a tick: forwards have even places, backwards odd ones.
using Place = std::int32_t;
constexpr Place kUnknown = -1;

/// The places of all actions of a step.
class Places {
 public:
  Places(const StepPlan& plan, std::span<const Schedule> schedules, int slots)
      : plan_(plan),
        schedules_(schedules),
        slots_(static_cast<std::size_t>(slots)),
        per_replica_(schedules.front().ranks.size()),
        stages_(schedules.front().stages()),
        runs_(schedules.size() * per_replica_) {
    for (const ReplicaPlan& replica : plan.replicas)
      for (std::size_t s = 0; s < stages_; ++s)
        of_stage_.push_back({std::vector(replica.packs.forward.size(), kUnknown),
                             std::vector(replica.packs.backward.size(), kUnknown)});
    for (bool any = true; any;) {
      any = false;
      for (std::size_t r = 0; r < schedules_.size(); ++r)
        for (std::size_t p = 0; p < per_replica_; ++p)
          while (step(r, p)) any = true;
    }
    for (std::size_t r = 0; r < schedules_.size(); ++r)
      for (std::size_t p = 0; p < per_replica_; ++p)
        SLIMPACK_CHECK(run(r, p).next == schedules_[r].ranks[p].size(), "the orders are stuck");
  }

  [[nodiscard]] Place of(std::size_t replica, const Action& action) const {
    return places(replica, action.stage.index(), action.pass)[action.pack.index()];
  }

 private:
  struct RankRun {
    std::size_t next = 0;
    Place last = -1;  ///< of the action before
  };

  [[nodiscard]] const MicroPack& pack_of(std::size_t r, const Action& action) const {
    return plan_.replicas[r].packs.of(action.pass)[action.pack.index()];
  }
  RankRun& run(std::size_t r, std::size_t p) { return runs_[r * per_replica_ + p]; }
  [[nodiscard]] std::vector<Place>& places(std::size_t r, std::size_t s, Pass pass) {
    return of_stage_[r * stages_ + s][pass == Pass::kForward ? 0 : 1];
  }
  [[nodiscard]] const std::vector<Place>& places(std::size_t r, std::size_t s, Pass pass) const {
    return of_stage_[r * stages_ + s][pass == Pass::kForward ? 0 : 1];
  }

  /// The first place where an action may stand by itself; kUnknown while that is not known.
  Place least(std::size_t r, std::size_t p, const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    const std::size_t s = action.stage.index(), pack = action.pack.index();
    Place place = run(r, p).last + 1;
    if (has_input(action, stages_)) {
      const Place input = places(r, forward ? s - 1 : s + 1, action.pass)[pack];
      if (input == kUnknown) return kUnknown;
      place = std::max(place, input + 2);
    }
    // Its output finds a free slot: nobody waits in a tick for what comes after.
    if (has_output(action, stages_) && pack >= slots_) {
      const Place taken = places(r, forward ? s + 1 : s - 1, action.pass)[pack - slots_];
      if (taken == kUnknown) return kUnknown;
      place = std::max(place, taken);
    }
    return place % 2 == (forward ? 0 : 1) ? place : place + 1;
  }

  /// The place of an action that all replicas of its pack run together.
  Place common(std::size_t r, std::size_t p, const Action& action) {
    const auto count = static_cast<std::size_t>(pack_of(r, action).replicas);
    Place place = kUnknown;
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
      const auto& actions = schedules_[m].ranks[p];
      const std::size_t next = run(m, p).next;
      const bool there = next < actions.size() && actions[next].stage == action.stage &&
                         actions[next].pass == action.pass &&
                         pack_of(m, actions[next]) == pack_of(r, action);
      const Place own = there ? least(m, p, actions[next]) : kUnknown;
      if (own == kUnknown) return kUnknown;
      place = std::max(place, own);
    }
    return place;
  }

  bool step(std::size_t r, std::size_t p) {
    const auto& actions = schedules_[r].ranks[p];
    if (run(r, p).next == actions.size()) return false;
    const Action& action = actions[run(r, p).next];
    if (action.pass == Pass::kWeightGradient) return ++run(r, p).next, true;
    const Place place = common(r, p, action);
    if (place == kUnknown) return false;
    const auto count = static_cast<std::size_t>(pack_of(r, action).replicas);
    for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
      RankRun& own = run(m, p);
      const Action& of_member = schedules_[m].ranks[p][own.next++];
      places(m, of_member.stage.index(), of_member.pass)[of_member.pack.index()] = place;
      own.last = place;
    }
    return true;
  }

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  std::size_t slots_;
  std::size_t per_replica_;  ///< ranks of a pipeline
  std::size_t stages_;
  std::vector<RankRun> runs_;                                ///< [replica · per_replica + rank]
  std::vector<std::array<std::vector<Place>, 2>> of_stage_;  ///< [replica · stages + stage][way]
};

/// An action of all ranks, between the two halves of a tick.
struct JointAction {
  std::int32_t tick;
  Pass pass;
  PackId pack;
};

/// In their order: of a tick first G, which frees, then E, then H.
std::vector<JointAction> joint_actions(const PackPlan& packs, const Places& places,
                                       std::size_t replica, std::size_t stages) {
  std::vector<JointAction> all;
  const StageId first(0), last(stages - 1);
  const auto tick_of = [&](StageId stage, Pass pass, std::size_t pack) {
    return places.of(replica, {stage, pass, PackId(pack)}) / 2;
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
                           const std::vector<JointAction>& joint, const Places& places,
                           std::size_t replica, std::size_t rank) {
  std::vector<Action> out;
  auto next = joint.begin();
  for (const Action& action : actions) {
    // Weight gradients follow what they belong to.
    if (action.pass != Pass::kWeightGradient)
      for (const Place place = places.of(replica, action);
           next != joint.end() && 2 * next->tick < place; ++next)
        out.push_back({StageId(rank), next->pass, next->pack});
    out.push_back(action);
  }
  for (; next != joint.end(); ++next) out.push_back({StageId(rank), next->pass, next->pack});
  return out;
}

}  // namespace

std::vector<Schedule> with_vocabulary(const StepPlan& plan, std::vector<Schedule> schedules,
                                      int slots) {
  if (!plan.layout.spread_vocabulary) return schedules;
  const Places places(plan, schedules, slots);
  std::vector<Schedule> out;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    Schedule& own = out.emplace_back(Schedule{{}, schedules[r].stages_per_rank});
    const std::vector<JointAction> joint =
        joint_actions(plan.replicas[r].packs, places, r, schedules[r].stages());
    for (std::size_t p = 0; p < schedules[r].ranks.size(); ++p)
      own.ranks.push_back(merged(schedules[r].ranks[p], joint, places, r, p));
  }
  return out;
}

}  // namespace slimpack
