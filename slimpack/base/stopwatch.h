// Wall time in laps.
#pragma once

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"

namespace slimpack {

class Stopwatch {
 public:
  /// Since it was made or last asked.
  Nanos lap() {
    const Nanos now = monotonic_now();
    const Nanos lap = now - last_;
    last_ = now;
    return lap;
  }

 private:
  Nanos last_ = monotonic_now();
};

}  // namespace slimpack
