// Receive posts: where lowered schedules post the receives of their actions' inputs.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

class ReceivePosts {
 public:
  /// Keeps the span. Empty = all receives are posted in time.
  ReceivePosts(std::span<const LoweredSchedule> lowered, std::size_t stages);

  /// The last action or send of its rank before the receive of an action's input is posted; null =
  /// none.
  [[nodiscard]] const Instruction* before(std::size_t replica, const Action& action) const;

 private:
  /// The instructions of one stage, by direction and pack.
  using OfStage = std::array<std::vector<const Instruction*>, 2>;

  std::size_t count_;            ///< of stages
  std::vector<OfStage> stages_;  ///< [replica · stages + stage]
};

}  // namespace slimpack
