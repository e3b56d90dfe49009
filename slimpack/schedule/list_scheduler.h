// List scheduler: one plan's list schedules under several memory caps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/memory_guard.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// What list_schedule works out once for a plan, whatever the caps.
class ListScheduler {
 public:
  /// Keeps a reference to `times`.
  ListScheduler(const PackPlan& packs, const TaskTimes& times, const TaskBytes& bytes,
                int slots = kChannelSlots);

  /// As the function of that name.
  [[nodiscard]] const std::vector<Bytes>& least_memory() const { return least_memory_; }

  struct Result {
    Schedule schedule;
    std::vector<Bytes> memory;  ///< by stage, as schedule_memory
  };
  /// As list_schedule: `caps` by stage, empty = unlimited.
  [[nodiscard]] std::optional<Result> run(const std::vector<Bytes>& caps) const;

 private:
  const TaskTimes& times_;
  std::int32_t slots_;
  std::vector<std::int32_t> needed_;
  std::vector<MemoryGuard> guards_;
  std::vector<Bytes> least_memory_;
};

}  // namespace slimpack
