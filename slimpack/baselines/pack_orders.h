// The orders of micro-batches that DynaPipe tries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slimpack {

/// Orders of packs with these costs, as DynaPipe tries them (optimize_schedule): first the given
/// order, then every order of three clusters of similar packs (four for at most 20 packs). The
/// packs of a cluster stay in the given order. k-means on the costs makes the clusters. Each order
/// lists indices. Deterministic. Cost: O(n log n) and the result.
[[nodiscard]] std::vector<std::vector<std::size_t>> pack_orders(
    std::span<const std::int64_t> costs);

}  // namespace slimpack
