// Rank clock: what time it is on a rank, by the wall or in virtual time (docs/ranks.md); the marks
// in a device's queue and the turns on processors that it reads time by.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <semaphore>

#include "slimpack/base/threads.h"
#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Lets no more ranks compute at once than there are processors, in virtual time. Threads that
/// share a processor displace each other's caches. Ranks that take turns do not, so each takes as
/// long as it would alone. Thread-safe.
class ProcessorTurns {
 public:
  ProcessorTurns() : free_(processors()) {}

  /// Waits for a processor.
  void take() { free_.acquire(); }
  void give_up() { free_.release(); }

 private:
  std::counting_semaphore<> free_;
};

/// A mark of the work that a thread had asked of a device at some moment. Copies are the same mark.
/// A mark of a CPU is empty: its work is done when a call returns.
class WorkMark {
 public:
  enum class Kind : bool { kOrder, kTime };

  WorkMark() = default;
  /// All that the calling thread has asked of the device so far. `kind`: whether since() may be
  /// asked for.
  WorkMark(c10::Device device, Kind kind);

  /// The calling thread's later work on the device waits for the mark. The host does not wait.
  void order_queue_after() const;
  /// The host waits until the device has reached the mark, unless it is known to have done so.
  void await() const;
  /// The time between two marks on the device. REQUIRES: kTime, and both were awaited.
  [[nodiscard]] Nanos since(const WorkMark& earlier) const;

 private:
  std::shared_ptr<c10::Event> event_;  ///< null = nothing
};

/// Made on the rank's thread and used by it alone. Virtual time is the processor time of the thread
/// plus its waits for other ranks, in *their* virtual time. So ranks that share processors yield
/// the timeline that as many processors would give.
class RankClock {
 public:
  /// `start` is time 0 of the wall clock (monotonic_now); virtual time begins now, at 0. In virtual
  /// time the rank waits here for one of the `turns` and keeps it until the clock is destroyed;
  /// null = it needs none. `device` is the rank's.
  RankClock(ClockKind kind, Nanos start, ProcessorTurns* turns = nullptr,
            c10::Device device = c10::Device(c10::kCPU));
  ~RankClock();
  RankClock(const RankClock&) = delete;
  RankClock& operator=(const RankClock&) = delete;

  /// The time on the host, whatever the device is doing.
  [[nodiscard]] Nanos now() const;

  /// When the rank's work on its device up to some call is done. On a CPU and in virtual time that
  /// is known at once.
  struct Moment {
    Nanos time;
    WorkMark mark;
  };
  /// The moment at which the work so far is done. The host does not wait for a device, except in
  /// virtual time.
  [[nodiscard]] Moment moment() const;
  /// Waits for the moment. So spans between moments show the work, and not its launch.
  [[nodiscard]] Nanos time_of(const Moment& moment) const;

  [[nodiscard]] c10::Device device() const { return device_; }
  /// Ranks may then run in another order than their clocks say.
  [[nodiscard]] bool is_virtual() const { return kind_ == ClockKind::kVirtual; }

  /// The rank has waited for something that happened at `time` on another rank's clock. Virtual
  /// time continues from there if that is later. The wall clock stays as it is.
  void wait_until(Nanos time);

  /// Around a wait for other ranks, which may need the processor.
  void leave_processor();
  void return_to_processor();

 private:
  ClockKind kind_;
  Nanos start_;            ///< on the clock that is read
  ProcessorTurns* turns_;  ///< null = none is needed
  c10::Device device_;
  WorkMark anchor_;  ///< on a device by the wall: a moment that both clocks know
  Nanos anchored_;   ///< when that was, on the host
};

}  // namespace slimpack
