// List schedules of a single replica.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/memory_guard.h"

namespace slimpack::testing {

struct ListScheduleOptions {
  std::vector<Bytes> memory_cap;  ///< by stage; empty = unlimited
  int slots = kChannelSlots;
  std::int32_t stages_per_rank = 1;
};

/// The list schedule of its packs; nullopt when a cap is below least_memory.
[[nodiscard]] inline std::optional<Schedule> list_schedule(
    const PackPlan& packs, const TaskTimes& times, const TaskBytes& bytes,
    const ListScheduleOptions& options = {}) {
  const ReplicaPacks replica{packs, times, bytes};
  auto result = ListScheduler(std::span(&replica, 1), options.slots, options.stages_per_rank)
                    .run(options.memory_cap);
  return result ? std::optional(std::move(result->schedule)) : std::nullopt;
}

/// By stage: the least cap with which list_schedule finds orders.
[[nodiscard]] inline std::vector<Bytes> least_memory(const PackPlan& packs, const TaskBytes& bytes,
                                                     int slots = kChannelSlots) {
  std::vector<Bytes> least;
  for (const MemoryGuard& guard : memory_guards(packs, bytes, {running_needs(packs)}, slots))
    least.push_back(guard.least_cap());
  return least;
}

}  // namespace slimpack::testing
