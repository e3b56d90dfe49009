// The cost model's costs of a published job, with what the program that ran it does otherwise.
#pragma once

#include "bench/published/job.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack::bench {

inline constexpr double kNanosPerSecond = 1e9;

/// Steps, each on one layer and one MicroPack of the job's size:
///  1. cost_from_hardware, without the gathers that only sequence sharding needs.
///  2. The bytes that the runtime moves besides: elementwise work, scores, logits.
///  3. Backward gets the time of the work that is computed again.
///  4. Groups across nodes exchange in NCCL's rings, over as many adapters as members in a node.
///  5. A pass that takes less than the host does is lengthened to the host's time. That is exact
///     for these jobs alone, whose MicroPacks are all alike: costs are linear in tokens, the longer
///     of two times is not.
[[nodiscard]] Costs published_costs(const PublishedJob& job);

}  // namespace slimpack::bench
