// Wall time in laps.
#pragma once

#include <chrono>

#include "slimpack/base/units.h"

namespace slimpack {

/// Since some moment in the past.
[[nodiscard]] inline Nanos wall_time() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

class Stopwatch {
 public:
  /// Since it was made or last asked.
  Nanos lap() {
    const Nanos now = wall_time();
    const Nanos lap = now - last_;
    last_ = now;
    return lap;
  }

 private:
  Nanos last_ = wall_time();
};

}  // namespace slimpack
