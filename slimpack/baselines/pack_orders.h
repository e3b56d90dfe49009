// Orders of micro-batches that DynaPipe tries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slimpack {

/// Orders of packs, by their costs, as DynaPipe tries them (optimize_schedule): the given order,
/// and every order of three clusters of similar packs (four when there are at most 20); packs of a
/// cluster stay in the given order. Each order lists indices; the given one comes first. Clusters
/// are those of k-means on the costs. Deterministic. Cost: O(n log n) and the result.
[[nodiscard]] std::vector<std::vector<std::size_t>> pack_orders(
    std::span<const std::int64_t> costs);

}  // namespace slimpack
