// Groups of ranks that are threads: members read each other's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/thread_room.h"

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
  /// What one member gives in one call.
  struct Given {
    Tensors tensors;
    double value = 0;
    std::int32_t rank = 0;  ///< whose memory they count as
  };
  struct Round {
    std::vector<Given> given;  ///< by member
    Nanos complete;            ///< when the last has given
    std::int32_t gave = 0;
    std::int32_t took = 0;
  };
  /// Round `number` of those that are under way.
  Round& round(std::uint64_t number);
  /// Tensors that are handed over go to the member `step` places further; 0 = all may read them.
  void give(std::uint64_t number, std::int32_t member, Given given, Nanos time,
            std::int32_t step = 0);
  [[nodiscard]] std::int32_t member_at(std::int32_t place) const {
    return (place % size_ + size_) % size_;
  }
  /// What is handed over counts as the receivers' memory from the moment on at which all have
  /// given.
  void charge_receivers(const Round& round, std::int32_t step) const;
  /// Waits until all have given.
  void await(std::uint64_t number, RankClock& clock);
  /// A copy, which keeps the tensors alive.
  [[nodiscard]] Round take(std::uint64_t number);
  /// What one member gave, and nobody else takes.
  [[nodiscard]] Tensors take_from(std::uint64_t number, std::int32_t member);
  /// One member more has taken what it needs. The lock is held.
  void took(std::uint64_t number);

  ThreadRoom room_;
  std::int32_t size_;
  std::deque<Round> rounds_;
  std::uint64_t first_ = 0;  ///< number of rounds_.front()
};

}  // namespace slimpack
