// Stage times: the terms behind StageTable's times.
#pragma once

#include <cstdint>

#include "slimpack/cost/bound_stages.h"

namespace slimpack {

/// StageTable::stage and vocabulary.
[[nodiscard]] PackCost stage_cost(const BoundStages& bound, StageId stage, Pass pass,
                                  std::int32_t replicas = 1);
/// The time that merging adds to a layer in which attention runs once. Known are groups of 2, 4, …
/// replicas; of other sizes it is between these, or less than twice as large as the largest. Throws
/// InvalidInput where it is not known.
[[nodiscard]] PackCost merge_time(const LayerCosts& layer, Pass pass, std::int32_t replicas);
[[nodiscard]] EdgeTime vocabulary_time(const BoundStages& bound, Pass pass);

}  // namespace slimpack
