// Rank groups: which ranks of a grid talk to each other, and what about.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/rank_grid.h"

namespace slimpack {

/// The groups of Communicator, and those whose neighbours are stages of a pipeline: each direction
/// has its own, so that neither waits for the other.
enum class GroupKind : std::uint8_t {
  kWorld,
  kData,
  kContext,
  kTensor,
  kTied,
  kForward,
  kBackward
};

/// A group of the grid: ranks first, first + stride, …
struct RankGroup {
  GroupKind kind = GroupKind::kWorld;
  std::int32_t size = 1;
  std::int32_t first = 0;
  std::int32_t stride = 1;

  [[nodiscard]] std::int32_t rank(std::int32_t member) const { return first + member * stride; }
  [[nodiscard]] std::int32_t member(std::int32_t rank) const { return (rank - first) / stride; }
  /// "data of ranks 0, 4", for messages.
  [[nodiscard]] std::string name() const;
  auto operator<=>(const RankGroup&) const = default;
};

/// The groups of Communicator that a rank is in.
[[nodiscard]] std::vector<RankGroup> collective_groups(const RankGrid& grid, std::int32_t rank);

/// Its pipeline's, forward and backward; none where there is one stage.
[[nodiscard]] std::vector<RankGroup> pipeline_groups(const RankGrid& grid, std::int32_t rank);

}  // namespace slimpack
