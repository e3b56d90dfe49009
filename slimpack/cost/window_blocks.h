// Attention with a window, by a kernel that computes the scores of all keys of a call: the blocks
// of queries of a slice, one call each. This is the rule by which the runtime and the memory model
// both decide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace slimpack {

/// Queries [row, row + rows) of a slice, and the keys from the first that one of them sees to the
/// last one's own.
struct WindowBlock {
  std::int64_t row = 0, rows = 0;
  std::int64_t first_key = 0, keys = 0;  ///< counted from the first that the slice sees
  bool masked = true;  ///< the window hides keys of the block from some of its queries
};

/// `before`: keys that the slice's first query sees before its own. The first queries, from which
/// the window hides nothing, are one block. Further blocks compute for each query as many scores
/// too many as the block has queries. So narrow windows take short blocks; with wide ones longer
/// calls gain more than that. REQUIRES: before < window.
[[nodiscard]] inline std::vector<WindowBlock> window_blocks(std::int64_t before,
                                                            std::int64_t queries,
                                                            std::int64_t window) {
  const std::int64_t most = window < 1024 ? 64 : 192;
  std::vector<WindowBlock> blocks;
  std::int64_t row = std::min(queries, window - 1 - before);
  if (row > 0) blocks.push_back({0, row, 0, before + row, false});
  for (; row < queries; row += most) {
    const std::int64_t rows = std::min(most, queries - row);
    blocks.push_back({row, rows, before + row - (window - 1), window - 1 + rows});
  }
  return blocks;
}

}  // namespace slimpack
