// Groups of ranks that are threads: members read each other's tensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/thread_messages.h"
#include "slimpack/packflow/ranks/thread_rounds.h"

namespace slimpack {

/// The shared side of the circles of a group, each of which begins with its first shift.
/// Thread-safe.
class ThreadCircles {
 public:
  ThreadCircles(SharedFailure& failure, const RankGroup& group, std::optional<LinkUse> links)
      : failure_(failure), group_(group), links_(std::move(links)) {}

  [[nodiscard]] ThreadRounds& of(const Zone& circle);

 private:
  SharedFailure& failure_;
  RankGroup group_;
  std::optional<LinkUse> links_;
  std::mutex mutex_;
  std::map<Zone, std::unique_ptr<ThreadRounds>> rounds_;
};

/// The shared side of a group. Thread-safe; outlives its members.
class ThreadCollective {
 public:
  /// `links`: those over which messages travel in virtual time; nullopt: they take no time.
  ThreadCollective(SharedFailure& failure, const RankGroup& group,
                   const std::optional<LinkUse>& links);

  /// The end of member `index`. Only that member's thread uses it, the clock, and the member's link
  /// (null without links).
  [[nodiscard]] Collective member(std::int32_t index, RankClock& clock, SenderLink* link);

 private:
  ThreadRounds gathering_, rows_, pairwise_, shards_;
  ThreadCircles circles_;
  ThreadMessages messages_;
};

}  // namespace slimpack
