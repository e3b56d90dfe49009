// Rounds: the threads of a group exchange tensors, call by call.
//
// The n-th call of a member gives into round n. A round is complete when all members have given.
// Then each member takes what it needs, and the last one to take ends the round.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/thread_room.h"

namespace slimpack {

/// The shared side. Thread-safe; outlives the members' ends. On a device, the work of a member that
/// takes waits for the work of those that gave; no host waits for it.
class ThreadRounds {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// The tensors and the number that one member gives in one call.
  struct Given {
    Tensors tensors;
    double value = 0;
    WorkMark ready = {};    ///< of the work of the member so far
    std::int32_t rank = 0;  ///< the tensors count as this rank's memory
    Bytes leaving{0};       ///< what would leave the member if it were a process
    Nanos time{0};          ///< when it gave
  };
  /// When each member has the tensors that a round brings it.
  using Arrivals =
      std::function<std::vector<Nanos>(std::span<const Given> given, std::int32_t step)>;

  /// Without `arrivals` each member has it when the last one has given.
  ThreadRounds(SharedFailure& failure, std::int32_t size, Arrivals arrivals = {})
      : room_(failure), size_(size), arrivals_(std::move(arrivals)) {}

  [[nodiscard]] std::int32_t size() const { return size_; }
  /// The member at a place in the circle of members; places may be negative or above size().
  [[nodiscard]] std::int32_t member_at(std::int32_t place) const {
    return (place % size_ + size_) % size_;
  }

  /// Gives into a round. With a `step` other than 0, the member `step` places further takes the
  /// tensors over; with 0 all members may read them.
  void give(std::uint64_t number, std::int32_t member, Given given, std::int32_t step);
  /// Waits until all members have given. Throws PeerFailed once any rank has failed.
  void await_given(std::uint64_t number, RankClock& clock);
  /// Waits until the member also has the tensors that the others gave it.
  void await(std::uint64_t number, std::int32_t member, RankClock& clock);
  /// The gifts of all members, as a copy that keeps the tensors alive. Called once by each member.
  [[nodiscard]] std::vector<Given> take(std::uint64_t number);
  /// Takes over the tensors of one member, which no other member takes; called instead of take().
  [[nodiscard]] Tensors take_from(std::uint64_t number, std::int32_t member);

 private:
  struct Round {
    std::vector<Given> given;     ///< by member
    std::vector<Nanos> arrivals;  ///< by member, once all have given
    std::int32_t gave = 0;
    std::int32_t took = 0;
  };
  /// The unfinished round `number`, which may begin here.
  Round& round(std::uint64_t number);
  /// When the members have what a complete round brings them.
  [[nodiscard]] std::vector<Nanos> arrivals_of(const Round& round, std::int32_t step) const;
  [[nodiscard]] static Nanos last_given(const Round& round);
  /// Counts the tensors of a complete round as the memory of the members that take them over.
  void charge_receivers(const Round& round, std::int32_t step) const;
  /// Notes that one more member has taken. REQUIRES: the caller holds the lock.
  void took(std::uint64_t number);

  ThreadRoom room_;
  std::int32_t size_;
  Arrivals arrivals_;
  std::deque<Round> rounds_;
  std::uint64_t first_ = 0;  ///< number of rounds_.front()
};

/// One member's end. Only that member's thread uses it and the clock.
class RoundsMember {
 public:
  RoundsMember(ThreadRounds& rounds, std::int32_t index, RankClock& clock)
      : rounds_(rounds), index_(index), clock_(clock) {}

  [[nodiscard]] std::int32_t size() const { return rounds_.size(); }
  [[nodiscard]] std::int32_t index() const { return index_; }

  /// The member `step` places before this one.
  [[nodiscard]] std::int32_t member_before(std::int32_t step) const {
    return rounds_.member_at(index_ - step);
  }

  /// Gives into the next round and returns its number. Does not wait.
  std::uint64_t give(ThreadRounds::Tensors tensors, double value = 0, std::int32_t step = 0,
                     Bytes leaving = Bytes(0)) {
    rounds_.give(given_, index_,
                 {.tensors = std::move(tensors),
                  .value = value,
                  .ready = WorkMark(clock_.device(), WorkMark::Kind::kOrder),
                  .leaving = leaving,
                  .time = clock_.now()},
                 step);
    return given_++;
  }
  void await_given(std::uint64_t number) { rounds_.await_given(number, clock_); }
  void await(std::uint64_t number) { rounds_.await(number, index_, clock_); }
  [[nodiscard]] std::vector<ThreadRounds::Given> take(std::uint64_t number) {
    return rounds_.take(number);
  }
  /// Takes over the tensors of the member `step` places before this one.
  [[nodiscard]] ThreadRounds::Tensors take_shifted(std::uint64_t number, std::int32_t step) {
    return rounds_.take_from(number, member_before(step));
  }

  /// Gives, waits for all and takes.
  [[nodiscard]] std::vector<ThreadRounds::Given> exchange(ThreadRounds::Tensors tensors,
                                                          double value = 0,
                                                          Bytes leaving = Bytes(0)) {
    const std::uint64_t number = give(std::move(tensors), value, 0, leaving);
    await(number);
    return take(number);
  }
  /// Every member's tensor.
  [[nodiscard]] ThreadRounds::Tensors exchange(at::Tensor own, Bytes leaving = Bytes(0)) {
    ThreadRounds::Tensors result;
    for (ThreadRounds::Given& given : exchange(ThreadRounds::Tensors{std::move(own)}, 0, leaving))
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
