// Rank clock: what time it is on a rank, by the wall or in virtual time (design §6).
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Made on the rank's thread and used by it alone. Virtual time is the processor time of the thread
/// plus what it waited for others in *their* virtual time, so ranks that share processors yield the
/// timeline that as many processors would give.
class RankClock {
 public:
  /// `start` is when time 0 was by the wall clock (monotonic_now); virtual time begins now, at 0.
  RankClock(ClockKind kind, Nanos start);

  [[nodiscard]] Nanos now() const;

  /// What the rank waited for has happened at `time` on another rank's clock: virtual time goes on
  /// from there if it is later. The wall clock knows by itself.
  void wait_until(Nanos time);

 private:
  ClockKind kind_;
  Nanos start_;  ///< on the clock that is read
};

}  // namespace slimpack
