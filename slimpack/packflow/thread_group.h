// Ranks as threads of one process: tensors change hands without a copy.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>

#include "slimpack/packflow/communicator.h"

namespace slimpack {

/// Another rank of the group has failed; its own exception is the cause.
class PeerFailed : public std::runtime_error {
 public:
  PeerFailed() : std::runtime_error("another rank failed") {}
};

/// The shared side of `ranks` communicators. Thread-safe; outlives its communicators.
class ThreadGroup {
 public:
  /// `slots` messages fit into each channel between neighbours, in either direction.
  ThreadGroup(std::int32_t ranks, int slots);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  [[nodiscard]] std::unique_ptr<Communicator> communicator(std::int32_t rank);

  /// Wakes every rank that waits; all calls throw PeerFailed from now on. The first cause is kept.
  void fail(std::exception_ptr cause);
  [[nodiscard]] std::exception_ptr cause() const;

 private:
  struct State;
  class Member;
  std::unique_ptr<State> state_;
};

}  // namespace slimpack
