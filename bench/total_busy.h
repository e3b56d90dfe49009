// Busy time of a step.
#pragma once

#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The busy time of all ranks together.
[[nodiscard]] inline Nanos total_busy(const TimelineMetrics& metrics) {
  Nanos busy{0};
  for (const RankMetrics& rank : metrics.ranks) busy += rank.busy;
  return busy;
}

}  // namespace slimpack
