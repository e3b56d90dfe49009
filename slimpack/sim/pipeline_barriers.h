// Pipeline barriers: the ranks of a pipeline wait for each other before E, H and G.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// The barriers of one replica. Each action starts when the last rank is ready for it.
class PipelineBarriers {
 public:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

  /// When the actions of a pass start and end, by pack; kUnknown before.
  struct Times {
    std::vector<std::int64_t> start, end;
  };

  /// Keeps a reference to the times.
  PipelineBarriers(const TaskTimes& times, std::size_t ranks);

  /// The rank is ready for its next action of these at `ready`. Result: whether all ranks are; the
  /// rank goes on then, else it asks again. REQUIRES: all ranks run E, H and G in one order.
  bool join(std::size_t rank, const Action& action, std::int64_t ready);

  [[nodiscard]] const Times& of(Pass pass) const { return times_[joint_index(pass)]; }

 private:
  const TaskTimes& durations_;
  std::array<Times, kJointPasses.size()> times_;
  std::vector<bool> joined_;  ///< by rank: is ready and has not gone on
  std::size_t ready_ranks_ = 0;
  std::int64_t last_ready_ = 0;
};

}  // namespace slimpack
