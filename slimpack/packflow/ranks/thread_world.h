// Ranks as threads of one process.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "slimpack/packflow/ranks/link_times.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

/// The shared side of a job's communicators. Their calls throw PeerFailed (thread_room.h) once any
/// rank has failed.
class ThreadWorld final : public World {
 public:
  /// `slots` messages fit into each stage's inbox of either direction. `links`: over which messages
  /// travel in virtual time; nullopt: they take no time. Once `should_stop`, require_peers() of any
  /// rank throws Interrupted; every rank's thread may call it.
  ThreadWorld(const RankGrid& grid, int slots, std::optional<LinkUse> links = std::nullopt,
              std::function<bool()> should_stop = {});
  ~ThreadWorld() override;
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  [[nodiscard]] std::unique_ptr<Communicator> communicator(std::int32_t rank,
                                                           RankClock& clock) override;
  void fail(std::exception_ptr cause) override;
  [[nodiscard]] std::exception_ptr cause() const override;

 private:
  struct State;
  class Member;
  std::unique_ptr<State> state_;
};

}  // namespace slimpack
