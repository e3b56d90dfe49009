// Wall time in laps.
#pragma once

#include <chrono>

#include "slimpack/base/units.h"

namespace slimpack {

class Stopwatch {
 public:
  /// Since it was made or last asked.
  Nanos lap() {
    const auto now = std::chrono::steady_clock::now();
    const Nanos lap(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
    last_ = now;
    return lap;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace slimpack
