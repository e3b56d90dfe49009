// The nodes of a job's ranks: ranks of one node share its links.
#pragma once

#include <cstdint>

namespace slimpack {

/// Nodes are filled in the order of the runtime's ranks (packflow/ranks/rank_grid.h): first the
/// tensor-parallel ranks of a stage, then the stages of a replica, then the replicas.
struct NodePlacement {
  std::int32_t ranks_per_node = 0;  ///< 0 = one node holds all
  std::int32_t tensor = 1;
  std::int32_t stages = 1;
  std::int32_t replicas = 1;

  [[nodiscard]] bool holds_tensor() const { return holds(tensor); }
  /// Whether every stage boundary is inside a node.
  [[nodiscard]] bool holds_stages() const { return holds(std::int64_t{tensor} * stages); }
  /// Whether groups of `group` neighbouring replicas are inside a node.
  [[nodiscard]] bool holds_replicas(std::int64_t group) const {
    return holds(group * stages * tensor);
  }
  /// The stages of a replica, and the whole replicas, that one node holds at most; at least 1.
  [[nodiscard]] std::int32_t stages_together() const;
  [[nodiscard]] std::int32_t replicas_together() const;
  /// How many neighbouring replicas sum their gradients before these leave the node: the largest
  /// power of two that divides both a node and the job into such neighbours; 1 if one node has all.
  [[nodiscard]] std::int32_t replicas_summed_in_node() const;

 private:
  /// Whether no node divides a block of so many neighbours.
  [[nodiscard]] bool holds(std::int64_t ranks) const;
};

}  // namespace slimpack
