// Rank groups: the ranks of a grid that communicate with each other, by purpose.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/rank_grid.h"

namespace slimpack {

/// The groups of Communicator, and two groups of a pipeline's stages: one for each direction, so
/// that neither direction waits for the other.
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

/// The groups of Communicator that have this rank.
[[nodiscard]] std::vector<RankGroup> collective_groups(const RankGrid& grid, std::int32_t rank);

/// The groups of the rank's pipeline, forward and backward; empty if there is one stage.
[[nodiscard]] std::vector<RankGroup> pipeline_groups(const RankGrid& grid, std::int32_t rank);

}  // namespace slimpack
