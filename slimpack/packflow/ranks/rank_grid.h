// Rank grid: the place of each rank in a job, and the groups of ranks that communicate with each
// other, by purpose.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/stage_placement.h"
#include "slimpack/spec/hardware.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct RankPlace {
  ReplicaId replica;
  std::int32_t pipeline = 0;  ///< of the replica's pipeline ranks
  std::int32_t tensor = 0;    ///< of the pipeline rank's tensor-parallel ranks

  bool operator==(const RankPlace&) const = default;
};

/// Tensor-parallel rank t of pipeline rank p is rank (replica · pipeline + p) · tensor + t. With
/// tensor = 1 the simulator numbers ranks in the same way.
struct RankGrid {
  std::int32_t pipeline = 1;
  std::int32_t replicas = 1;
  std::int32_t tensor = 1;
  StagePlacement placement = {};    ///< of stages on the ranks of a pipeline
  bool spread_vocabulary = false;   ///< over the ranks of a pipeline (StageLayout)
  bool exchange_context = false;    ///< any two ranks of a pipeline exchange attention
  std::int32_t ranks_per_node = 0;  ///< of processes; 0 = one node has all
  bool route = false;               ///< shifts to other nodes are spread over a node's ranks

  [[nodiscard]] std::int32_t ranks() const { return pipeline * replicas * tensor; }
  [[nodiscard]] std::int32_t stages() const { return pipeline * placement.stages_per_rank(); }
  /// Whether a message between these neighbouring stages goes to the next pipeline rank; else it
  /// goes to the one before.
  [[nodiscard]] bool goes_up(StageId from, StageId to) const {
    return placement.goes_around() ? to > from : placement.rank_of(to) > placement.rank_of(from);
  }
  [[nodiscard]] RankPlace place(std::int32_t rank) const {
    return {ReplicaId(rank / (pipeline * tensor)), rank / tensor % pipeline, rank % tensor};
  }
  [[nodiscard]] std::int32_t rank(const RankPlace& place) const {
    return (place.replica.value() * pipeline + place.pipeline) * tensor + place.tensor;
  }
  /// How many neighbouring replicas sum their gradients before these leave their node.
  [[nodiscard]] std::int32_t replicas_summed_in_node() const {
    return NodePlacement{ranks_per_node, tensor, pipeline, replicas}.replicas_summed_in_node();
  }
  /// The owner of a shard of parameters, by its place among all shards (replica_shard).
  [[nodiscard]] ReplicaId shard_owner(std::int32_t place) const {
    const std::int32_t in_node = replicas_summed_in_node(), nodes = replicas / in_node;
    return ReplicaId(place % nodes * in_node + place / nodes);
  }
  bool operator==(const RankGrid&) const = default;
};

/// The grid of a run. Where the planner chooses the number of stages or the place of the
/// vocabulary, the grid has two stages on each rank and a spread vocabulary: connections must be
/// there before the planner has chosen.
[[nodiscard]] inline RankGrid rank_grid(const ParallelConfig& parallel) {
  const bool any = parallel.chooses_stages && parallel.pp > 1;
  return {parallel.pp,
          parallel.dp,
          parallel.tp,
          StagePlacement::of(parallel.placement, parallel.pp, any ? 2 : parallel.stages_per_rank),
          parallel.spread_vocabulary || (parallel.chooses_vocabulary && parallel.pp > 1),
          parallel.exchange_context};
}

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
