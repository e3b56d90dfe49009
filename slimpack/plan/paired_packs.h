// Paired packs: backward MicroPacks that hold the slices of a forward one.
#pragma once

#include <optional>
#include <vector>

#include "slimpack/plan/plan.h"

namespace slimpack {

/// By backward MicroPack the forward one with the same slices, in whatever order; nothing where
/// there is none. REQUIRES: valid packs. Cost: O(slices · log slices).
[[nodiscard]] std::vector<std::optional<PackId>> forward_pairs(const PackPlan& packs);

/// Whether every backward MicroPack holds the slices of a forward one.
[[nodiscard]] bool all_paired(const PackPlan& packs);

}  // namespace slimpack
