// Karmarkar–Karp: divides numbers into a given count of parts with nearly equal sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slimpack {

/// The largest differencing method (Karmarkar and Karp 1982) for `parts` parts, as verl has it.
/// 1. Begin with one partition for each value: the value alone, the other parts empty.
/// 2. Until one is left, take the two partitions with the widest spread between their heaviest and
///    lightest part. Join them: the heaviest part of one with the lightest of the other, and so on.
/// Result: the indices of each part's values, ascending; heaviest part first, then by first index.
/// With at least `parts` values no part is empty. Deterministic: ties are broken by index.
/// REQUIRES: parts ≥ 1, values ≥ 0. Cost: O(n · log² n).
[[nodiscard]] std::vector<std::vector<std::size_t>> karmarkar_karp(
    std::span<const std::int64_t> values, std::size_t parts);

}  // namespace slimpack
