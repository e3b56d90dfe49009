// Groups of ranks that are threads: members read each other's tensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/thread_messages.h"
#include "slimpack/packflow/ranks/thread_rounds.h"

namespace slimpack {

/// The shared side of the circles of a group, each of which begins with its first shift.
/// Thread-safe.
class ThreadCircles {
 public:
  explicit ThreadCircles(SharedFailure& failure) : failure_(failure) {}

  [[nodiscard]] ThreadRounds& of(const Zone& circle);

 private:
  SharedFailure& failure_;
  std::mutex mutex_;
  std::map<Zone, std::unique_ptr<ThreadRounds>> rounds_;
};

/// The shared side of a group. Thread-safe; outlives its members.
class ThreadCollective {
 public:
  ThreadCollective(SharedFailure& failure, const RankGroup& group)
      : gathering_(failure, group.size),
        rows_(failure, group.size),
        shards_(failure, group.size),
        circles_(failure),
        messages_(failure, group) {}

  /// The end of member `index`. Only that member's thread uses it and the clock.
  [[nodiscard]] Collective member(std::int32_t index, RankClock& clock);

 private:
  ThreadRounds gathering_, rows_, shards_;
  ThreadCircles circles_;
  ThreadMessages messages_;
};

}  // namespace slimpack
