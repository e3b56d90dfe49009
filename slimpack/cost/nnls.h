// Non-negative least squares for small dense problems.
#pragma once

#include <span>
#include <vector>

namespace slimpack {

/// x ≥ 0 that minimises ‖Σ x[j]·columns[j] − target‖₂ (Lawson and Hanson 1974, ch. 23). For
/// dependent columns it is one of the minimisers, with few columns in use.
/// REQUIRES: every column as long as `target`; finite values.
/// Cost: O(rows · columns²) per change of the active set; usually one change per column.
[[nodiscard]] std::vector<double> non_negative_least_squares(
    const std::vector<std::vector<double>>& columns, std::span<const double> target);

}  // namespace slimpack
