// Rank result: what one rank has measured in a step, and the timeline of all ranks.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

struct RankResult {
  double loss_sum = 0;  ///< over all ranks
  double gradient_norm = 0;
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  Bytes peak_activation;
};

/// The spans, samples and peaks of all members by index, at the first of them; elsewhere none.
[[nodiscard]] Timeline gathered_timeline(const RankResult& own, Collective& group);

}  // namespace slimpack
