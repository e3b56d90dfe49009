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

  /// The last action or send before the receive of an action's input is posted; null = none.
  [[nodiscard]] const Instruction* before(std::size_t replica, std::size_t stage,
                                          const Action& action) const;

 private:
  /// Of one rank, by direction and pack.
  using OfRank = std::array<std::vector<const Instruction*>, 2>;

  std::size_t stages_;
  std::vector<OfRank> ranks_;  ///< [replica · stages + stage]
};

}  // namespace slimpack
