#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/weight_backlog.h"

namespace slimpack {
namespace {

Bytes stage_memory(const MemoryGuard& guard, WeightBacklog backlog,
                   const std::vector<Action>& actions) {
  Bytes peak = guard.before_start();
  MemoryGuard::Walk walk(guard);
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
  for (const Action& action : actions) {
    const bool split = action.pass == Pass::kInputGradient;
    if (action.pass == Pass::kWeightGradient) {
      backlog.run(action.pack.value());
    } else if (action.pass == Pass::kForward) {
      peak = std::max(peak, walk.peak_after_forward(forwards, backwards));
      if (!backlog.empty()) peak = std::max(peak, backlog.peak_of_forward(forwards, backwards));
      ++forwards;
    } else {
      if (split || !backlog.empty())
        peak = std::max(peak, backlog.peak_of_backward(forwards, backwards, split));
      if (split) backlog.put_off(backwards);
      ++backwards;
    }
  }
  return peak;
}

}  // namespace

std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                   const TaskBytes& bytes, int slots) {
  const std::vector<MemoryGuard> guards = memory_guards(packs, bytes, running_needs(packs), slots);
  SLIMPACK_CHECK(guards.size() == schedule.stages.size());
  std::vector<Bytes> highest;
  for (std::size_t s = 0; s < guards.size(); ++s)
    highest.push_back(
        stage_memory(guards[s], WeightBacklog(guards[s], bytes, StageId(s)), schedule.stages[s]));
  return highest;
}

}  // namespace slimpack
