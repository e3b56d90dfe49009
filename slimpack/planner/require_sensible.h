// Rules that the input of a planner has to keep.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// Throws InvalidInput with value, rule and remedy for the first rule that is broken.
void require_sensible(const StepQuestion& question);

/// Choices::most_merged for a wish: the largest power of two that exceeds neither the wish, nor the
/// replicas, nor what the cost model knows. REQUIRES: wish and replicas ≥ 1.
[[nodiscard]] std::int32_t allowed_merging(std::int32_t wished, std::int32_t replicas,
                                           const Costs& cost);

}  // namespace slimpack
