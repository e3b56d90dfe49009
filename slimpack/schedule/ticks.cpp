// Steps: run all orders without a clock; give each action its tick as soon as the ticks of the
// actions that it needs are known.
#include "slimpack/schedule/ticks.h"

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

Ticks::Ticks(const StepPlan& plan, std::span<const Schedule> schedules, int slots)
    : plan_(plan),
      schedules_(schedules),
      slots_(static_cast<std::size_t>(slots)),
      per_replica_(schedules.front().ranks.size()),
      stages_(schedules.front().stages()),
      runs_(schedules.size() * per_replica_) {
  for (const ReplicaPlan& replica : plan.replicas)
    for (std::size_t s = 0; s < stages_; ++s)
      of_stage_.push_back({std::vector<Half>(replica.packs.forward.size(), kUnknown),
                           std::vector<Half>(replica.packs.backward.size(), kUnknown)});
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

Ticks::Half Ticks::of(std::size_t replica, const Action& action) const {
  const auto& halves = of_stage_[replica * stages_ + action.stage.index()];
  return halves[action.pass == Pass::kForward ? 0 : 1][action.pack.index()];
}

Ticks::Half Ticks::least(std::size_t r, std::size_t p, const Action& action) {
  const bool forward = action.pass == Pass::kForward;
  const std::size_t s = action.stage.index(), pack = action.pack.index();
  Half half = run(r, p).last + 1;
  if (has_input(action, stages_)) {
    const Half input = halves(r, forward ? s - 1 : s + 1, action.pass)[pack];
    if (input == kUnknown) return kUnknown;
    half = std::max(half, input + 2);
  }
  // The action's output finds a free slot: nobody waits in a tick for what comes after.
  if (has_output(action, stages_) && pack >= slots_) {
    const Half taken = halves(r, forward ? s + 1 : s - 1, action.pass)[pack - slots_];
    if (taken == kUnknown) return kUnknown;
    half = std::max(half, taken);
  }
  return half % 2 == (forward ? 0 : 1) ? half : half + 1;
}

Ticks::Half Ticks::common(std::size_t r, std::size_t p, const Action& action) {
  const auto count = static_cast<std::size_t>(pack_of(r, action).replicas);
  Half half = kUnknown;
  for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
    const auto& actions = schedules_[m].ranks[p];
    const std::size_t next = run(m, p).next;
    const bool there = next < actions.size() && actions[next].stage == action.stage &&
                       actions[next].pass == action.pass &&
                       pack_of(m, actions[next]) == pack_of(r, action);
    const Half own = there ? least(m, p, actions[next]) : kUnknown;
    if (own == kUnknown) return kUnknown;
    half = std::max(half, own);
  }
  return half;
}

bool Ticks::step(std::size_t r, std::size_t p) {
  const auto& actions = schedules_[r].ranks[p];
  if (run(r, p).next == actions.size()) return false;
  const Action& action = actions[run(r, p).next];
  if (action.pass == Pass::kWeightGradient || is_joint(action.pass)) return ++run(r, p).next, true;
  const Half half = common(r, p, action);
  if (half == kUnknown) return false;
  const auto count = static_cast<std::size_t>(pack_of(r, action).replicas);
  for (std::size_t m = r - r % count; m < r - r % count + count; ++m) {
    RankRun& own = run(m, p);
    const Action& of_member = schedules_[m].ranks[p][own.next++];
    halves(m, of_member.stage.index(), of_member.pass)[of_member.pack.index()] = half;
    own.last = half;
  }
  return true;
}

}  // namespace slimpack
