// Rooms: threads wait there for each other, until one of them fails.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"

namespace slimpack {

/// Another rank has failed; its own exception is the cause.
class PeerFailed : public std::runtime_error {
 public:
  PeerFailed() : std::runtime_error("another rank failed") {}
};

class ThreadRoom;

/// Whether a rank of the job has failed, and the rooms in which ranks wait. Thread-safe.
class SharedFailure {
 public:
  /// Wakes all threads that wait in any room. Keeps the first cause.
  void fail(std::exception_ptr cause);
  [[nodiscard]] bool failed() const { return failed_; }
  /// Throws PeerFailed once any rank has failed.
  void require_none() const {
    if (failed_) throw PeerFailed();
  }
  [[nodiscard]] std::exception_ptr cause() const;

 private:
  friend class ThreadRoom;
  void add(ThreadRoom& room) {
    const std::lock_guard lock(mutex_);
    rooms_.push_back(&room);
  }

  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::exception_ptr cause_;
  std::vector<ThreadRoom*> rooms_;
};

/// A mutex and a condition variable. Threads may make rooms while others wait in theirs or fail, as
/// groups do when their circles begin. Rooms live until no thread can fail any more.
class ThreadRoom {
 public:
  explicit ThreadRoom(SharedFailure& failure) : failure_(failure) { failure.add(*this); }
  ThreadRoom(const ThreadRoom&) = delete;
  ThreadRoom& operator=(const ThreadRoom&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// Lets the clock's rank wait until `ready`, which must stay true once it is true. Throws
  /// PeerFailed once any rank has failed.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, RankClock& clock, Ready ready) {
    const auto over = [&] { return failure_.failed() || ready(); };
    if (!over()) {
      clock.leave_processor();
      changed_.wait(lock, over);
      // The rank gives up the lock meanwhile: the rank that has the processor may need it.
      lock.unlock();
      clock.return_to_processor();
      lock.lock();
    }
    failure_.require_none();
  }
  void notify() { changed_.notify_all(); }

 private:
  friend class SharedFailure;
  SharedFailure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

inline void SharedFailure::fail(std::exception_ptr cause) {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = std::move(cause);
  failed_ = true;
  // Nobody waits in a room that is made later: its threads read failed_ first.
  for (ThreadRoom* room : rooms_) {
    // Every thread that read failed_ under this mutex waits by now and gets the notification.
    const std::lock_guard in_room(room->mutex_);
    room->changed_.notify_all();
  }
}

inline std::exception_ptr SharedFailure::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace slimpack
