// Zone: the ranks that share the attention of a sequence (Zeppelin, arXiv:2509.21841).
#pragma once

#include <compare>
#include <cstdint>

namespace slimpack {

/// Neighbours. Each has an equal share of the sequence's rows, and of its causal pairs.
struct Zone {
  std::int32_t first = 0;
  std::int32_t size = 1;

  [[nodiscard]] std::int32_t end() const { return first + size; }
  [[nodiscard]] bool has(std::int32_t rank) const { return rank >= first && rank < end(); }
  auto operator<=>(const Zone&) const = default;
};

}  // namespace slimpack
