// Link map: which rank reaches which at what bandwidth.
//
// Ranks stand in nodes, in their order. Those of a node reach each other over its links; those of
// different nodes over network cards (NICs), each of which neighbouring ranks of a node share.
#pragma once

#include <cstdint>

#include "slimpack/spec/hardware.h"

namespace slimpack {

/// A link as one rank sees it: nanoseconds, and nanoseconds per byte.
struct Link {
  double latency = 0;
  double per_byte = 0;
};

struct LinkMap {
  std::int32_t ranks_per_node = 8;
  std::int32_t nics_per_node = 8;
  double node_latency = 0;   ///< nanoseconds
  double node_per_byte = 0;  ///< nanoseconds per byte that one rank sends inside its node
  double nic_latency = 0;
  double nic_per_byte = 0;  ///< of one NIC, in each direction

  [[nodiscard]] std::int32_t node(std::int32_t rank) const { return rank / ranks_per_node; }
  /// The number of nodes on which so many ranks stand.
  [[nodiscard]] std::int32_t nodes(std::int32_t ranks) const { return node(ranks - 1) + 1; }

  /// The link of a rank while all ranks of its node send, each over its part of the cards.
  [[nodiscard]] Link link(bool in_node) const {
    if (in_node) return {node_latency, node_per_byte};
    return {nic_latency, nic_per_byte * ranks_per_node / nics_per_node};
  }

  bool operator==(const LinkMap&) const = default;
};

/// The links of a machine. Its NICs carry together what all its ranks send (link_bytes_per_second).
/// A rank with several of these NICs uses them as one.
[[nodiscard]] LinkMap link_map(const HardwareSpec& hardware);

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
