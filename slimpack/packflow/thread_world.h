// Ranks as threads of one process.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "slimpack/packflow/communicator.h"
#include "slimpack/packflow/rank_clock.h"
#include "slimpack/packflow/rank_grid.h"

namespace slimpack {

/// The shared side of a job's communicators. Thread-safe; outlives its communicators.
class ThreadWorld {
 public:
  /// `slots` messages fit into each channel between neighbouring stages, in either direction.
  ThreadWorld(const RankGrid& grid, int slots);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  /// Of one rank, on whose thread it and the clock are used.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(std::int32_t rank, RankClock& clock);

  /// Wakes every rank that waits; all calls that wait throw PeerFailed (thread_room.h) from now on.
  /// The first cause is kept.
  void fail(std::exception_ptr cause);
  [[nodiscard]] std::exception_ptr cause() const;

 private:
  struct State;
  class Member;
  std::unique_ptr<State> state_;
};

}  // namespace slimpack
