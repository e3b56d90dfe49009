// Rank clock: what time it is on a rank, by the wall or in virtual time (design §6).
#pragma once

#include <c10/core/Device.h>

#include "slimpack/base/units.h"
#include "slimpack/packflow/device/processors.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Made on the rank's thread and used by it alone. Virtual time is the processor time of the thread
/// plus what it waited for others in *their* virtual time, so ranks that share processors yield the
/// timeline that as many processors would give.
class RankClock {
 public:
  /// `start` is when time 0 was by the wall clock (monotonic_now); virtual time begins now, at 0.
  /// In virtual time the rank has one of the `turns`, which it waits for here, until the clock is
  /// destroyed; null = it needs none. `device` is the rank's.
  RankClock(ClockKind kind, Nanos start, ProcessorTurns* turns = nullptr,
            c10::Device device = c10::Device(c10::kCPU));
  ~RankClock();
  RankClock(const RankClock&) = delete;
  RankClock& operator=(const RankClock&) = delete;

  /// Once all that the rank has begun on its device is done: what it then hands over is complete,
  /// and spans between two calls are those of the work.
  [[nodiscard]] Nanos now() const;

  /// What the rank waited for has happened at `time` on another rank's clock: virtual time goes on
  /// from there if it is later. The wall clock knows by itself.
  void wait_until(Nanos time);

  /// Around a wait for other ranks, which may need the processor.
  void leave_processor();
  void return_to_processor();

 private:
  ClockKind kind_;
  Nanos start_;            ///< on the clock that is read
  ProcessorTurns* turns_;  ///< null = none is needed
  c10::Device device_;
};

}  // namespace slimpack
