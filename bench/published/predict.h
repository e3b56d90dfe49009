// The predicted time and memory of a published job, by the simulator.
#pragma once

#include "bench/published/job.h"
#include "slimpack/base/units.h"

namespace slimpack::bench {

struct Prediction {
  double seconds = 0;
  double memory = 0;  ///< bytes of the rank with the most: the model's state, activations, logits
};
/// The prediction of a step under 1F1B, or Megatron's interleaved schedule with several stages a
/// rank. One replica is simulated.
[[nodiscard]] Prediction predict(const PublishedJob& job);

}  // namespace slimpack::bench
