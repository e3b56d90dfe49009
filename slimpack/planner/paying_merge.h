// Paying merge: how many replicas a long document should share at most.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// The document to be shared, and the pipeline that it runs through.
struct MergedDocument {
  Tokens length;
  std::int32_t pipeline_ranks = 1;
};

/// The group of 1, 2, 4, … replicas on which the document is through soonest, by itself: the least
/// of those that are equally quick. Every replica more takes a part of the work and adds messages
/// and kernel calls. The document runs in the best of 1, 2, 4, … slices of equal tokens; stages
/// take equal shares of the layers. The largest answer for any of the recomputations.
/// REQUIRES: most ≥ 1, and no more than the costs know; a recomputation.
/// Cost: O(recomputations · log most · slices).
[[nodiscard]] std::int32_t paying_merge(const Costs& cost,
                                        std::span<const Recompute> recomputations,
                                        const MergedDocument& document, std::int32_t most);

}  // namespace slimpack
