// Rounds: tensors that the threads of a group give each other, call by call.
//
// Every call of a member gives something into the round of that number. A round is complete when
// all members have given; then each takes what it needs, and the last to take ends the round.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/thread_room.h"

namespace slimpack {

/// The shared side. Thread-safe; outlives the members' ends.
class ThreadRounds {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// What one member gives in one call.
  struct Given {
    Tensors tensors;
    double value = 0;
    std::int32_t rank = 0;  ///< whose memory they count as
  };

  ThreadRounds(SharedFailure& failure, std::int32_t size) : room_(failure), size_(size) {}

  [[nodiscard]] std::int32_t size() const { return size_; }
  /// Places are counted in a circle.
  [[nodiscard]] std::int32_t member_at(std::int32_t place) const {
    return (place % size_ + size_) % size_;
  }

  /// Tensors that are handed over go to the member `step` places further; 0 = all may read them.
  void give(std::uint64_t number, std::int32_t member, Given given, Nanos time, std::int32_t step);
  /// Waits until all have given. Throws PeerFailed once any rank has failed.
  void await(std::uint64_t number, RankClock& clock);
  /// What every member gave. A copy, which keeps the tensors alive. Once for each member.
  [[nodiscard]] std::vector<Given> take(std::uint64_t number);
  /// What one member gave; no other member takes it. Instead of take().
  [[nodiscard]] Tensors take_from(std::uint64_t number, std::int32_t member);

 private:
  struct Round {
    std::vector<Given> given;  ///< by member
    Nanos complete;            ///< when the last has given
    std::int32_t gave = 0;
    std::int32_t took = 0;
  };
  /// Round `number` of those that are under way.
  Round& round(std::uint64_t number);
  /// Tensors that are handed over count as the receivers' memory once all have given.
  void charge_receivers(const Round& round, std::int32_t step) const;
  /// One member more has taken what it needs. The lock is held.
  void took(std::uint64_t number);

  ThreadRoom room_;
  std::int32_t size_;
  std::deque<Round> rounds_;
  std::uint64_t first_ = 0;  ///< number of rounds_.front()
};

/// One member's end, on whose thread it and the clock are used.
class RoundsMember {
 public:
  RoundsMember(ThreadRounds& rounds, std::int32_t index, RankClock& clock)
      : rounds_(rounds), index_(index), clock_(clock) {}

  [[nodiscard]] std::int32_t size() const { return rounds_.size(); }
  [[nodiscard]] std::int32_t index() const { return index_; }

  /// Gives into the next round, whose number it returns. Does not wait.
  std::uint64_t give(ThreadRounds::Tensors tensors, double value = 0, std::int32_t step = 0) {
    rounds_.give(given_, index_, {std::move(tensors), value}, clock_.now(), step);
    return given_++;
  }
  void await(std::uint64_t number) { rounds_.await(number, clock_); }
  [[nodiscard]] std::vector<ThreadRounds::Given> take(std::uint64_t number) {
    return rounds_.take(number);
  }
  /// What the member `step` places before this one has handed over.
  [[nodiscard]] ThreadRounds::Tensors take_shifted(std::uint64_t number, std::int32_t step) {
    return rounds_.take_from(number, rounds_.member_at(index_ - step));
  }

  /// Gives, waits for all and takes.
  [[nodiscard]] std::vector<ThreadRounds::Given> exchange(ThreadRounds::Tensors tensors,
                                                          double value = 0) {
    const std::uint64_t number = give(std::move(tensors), value);
    await(number);
    return take(number);
  }
  /// Every member's tensor.
  [[nodiscard]] ThreadRounds::Tensors exchange(at::Tensor own) {
    ThreadRounds::Tensors result;
    for (ThreadRounds::Given& given : exchange(ThreadRounds::Tensors{std::move(own)}))
      result.push_back(std::move(given.tensors[0]));
    return result;
  }
  void barrier() { static_cast<void>(exchange(ThreadRounds::Tensors{})); }

 private:
  ThreadRounds& rounds_;
  std::int32_t index_;
  RankClock& clock_;
  std::uint64_t given_ = 0;
};

}  // namespace slimpack
