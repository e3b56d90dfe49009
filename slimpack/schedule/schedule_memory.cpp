#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/weight_backlog.h"

namespace slimpack {

std::vector<Bytes> schedule_memory(const PackPlan& packs, const Schedule& schedule,
                                   const TaskBytes& bytes, int slots) {
  std::vector<MemoryGuard> guards = memory_guards(packs, bytes, running_needs(packs), slots);
  SLIMPACK_CHECK(guards.size() == schedule.stages.size());
  std::vector<Bytes> highest;
  for (std::size_t s = 0; s < guards.size(); ++s)
    highest.push_back(
        StageMemory(std::move(guards[s]), bytes, StageId(s)).highest_of(schedule.stages[s]));
  return highest;
}

}  // namespace slimpack
