// Rank groups: the ranks of a grid that communicate with each other, by purpose.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/packflow/ranks/rank_grid.h"

namespace slimpack {

/// The groups of Communicator, and of two neighbouring pipeline ranks one for each direction, so
/// that no message waits for another one that a different rank or action has to send first. Where
/// the pipeline is a ring, its last rank and its first are neighbours, too: two ranks so have four.
enum class GroupKind : std::uint8_t {
  kWorld,
  kData,
  kDataInNode,       ///< neighbours of kData on one node, who sum gradients first
  kDataAcrossNodes,  ///< one of each such group, at the same place
  kContext,
  kTensor,
  kPipeline,
  kVocabulary,
  kTied,
  kForward,
  kBackward,
  kRingForward,
  kRingBackward
};

/// "forward", "data in node".
[[nodiscard]] std::string_view to_string(GroupKind kind);
/// Whether groups of this kind sum gradients over replicas.
[[nodiscard]] bool sums_gradients(GroupKind kind);

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

/// The groups with the rank's neighbours in its pipeline, forward and backward; empty if it has
/// none. Every rank has as many: first those of pipeline ranks 0 and 1, 2 and 3, …, then those of 1
/// and 2, 3 and 4, …, then in a ring those of the first and the last. A rank that lacks one has a
/// group of its own in its place. So ranks that make their groups in this order, each when both its
/// members do, never wait in a circle.
[[nodiscard]] std::vector<RankGroup> edge_groups(const RankGrid& grid, std::int32_t rank);

}  // namespace slimpack
