// Rank clock: what time it is on a rank, by the wall or in virtual time (docs/ranks.md).
#pragma once

#include <c10/core/Device.h>

#include "slimpack/base/units.h"
#include "slimpack/packflow/device/processors.h"
#include "slimpack/packflow/device/work_mark.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

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
