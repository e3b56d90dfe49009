#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

std::vector<Bytes> least_memory(const PackPlan& packs, const TaskBytes& bytes, int slots) {
  std::vector<Bytes> least;
  for (const MemoryGuard& guard : memory_guards(packs, bytes, running_needs(packs), slots))
    least.push_back(guard.least_cap());
  return least;
}

std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                   const TaskBytes& bytes, int slots) {
  const std::vector<MemoryGuard> guards = memory_guards(packs, bytes, running_needs(packs), slots);
  SLIMPACK_CHECK(guards.size() == schedule.stages.size());
  std::vector<Bytes> highest;
  for (std::size_t s = 0; s < guards.size(); ++s) {
    Bytes peak = guards[s].before_start();
    MemoryGuard::Walk walk(guards[s]);
    std::int32_t backwards = 0;
    for (const Action& action : schedule.stages[s])
      if (action.pass == Pass::kBackward)
        ++backwards;
      else
        peak = std::max(peak, walk.peak_after_forward(action.pack.value(), backwards));
    highest.push_back(peak);
  }
  return highest;
}

}  // namespace slimpack
