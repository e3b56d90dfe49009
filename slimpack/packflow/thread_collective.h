// Groups of ranks that are threads: members read each other's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "slimpack/packflow/communicator.h"
#include "slimpack/packflow/rank_clock.h"
#include "slimpack/packflow/thread_room.h"

namespace slimpack {

/// The shared side of a group. Thread-safe; outlives its members.
class ThreadCollective {
 public:
  ThreadCollective(SharedFailure& failure, std::int32_t size) : room_(failure), size_(size) {}

  /// The end of member `index`, on whose thread it and the clock are used.
  [[nodiscard]] std::unique_ptr<Collective> member(std::int32_t index, RankClock& clock);

 private:
  class Member;

  using Tensors = std::vector<at::Tensor>;
  /// What all members give each other in one call.
  struct Round {
    std::vector<Tensors> given;  ///< by member
    std::vector<double> values;  ///< likewise
    Nanos complete;              ///< when the last has given
    std::int32_t gave = 0;
    std::int32_t took = 0;
  };
  /// Round `number` of those that are under way.
  Round& round(std::uint64_t number);
  void give(std::uint64_t number, std::int32_t member, Tensors tensors, double value, Nanos time);
  /// Waits until all have given.
  void await(std::uint64_t number, RankClock& clock);
  /// A copy, which keeps the tensors alive.
  [[nodiscard]] Round take(std::uint64_t number);

  ThreadRoom room_;
  std::int32_t size_;
  std::deque<Round> rounds_;
  std::uint64_t first_ = 0;  ///< number of rounds_.front()
};

}  // namespace slimpack
