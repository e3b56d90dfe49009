// Sums of gradients between processes.
#pragma once

#include <memory>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// A group of replicas by node: a member's neighbours there (kDataInNode), and the members at its
/// place of all such groups (kDataAcrossNodes).
struct NodePeers {
  ProcessPeers& in_node;
  ProcessPeers& across;
};

/// Between all members of a group, each of which owns its Shard. `peers` must outlive it.
[[nodiscard]] std::unique_ptr<ShardReduction> process_reduction(ProcessPeers& peers);

/// Every node of g members sums first, each member a part, and gives the sums to other nodes: each
/// member sends 1/g of what it would otherwise send over network cards (as hybrid sharding does,
/// arXiv:2304.11277). A member owns its Shard by node of its part. What a reduction sends to other
/// nodes leaves when the next reduction starts, or is awaited.
[[nodiscard]] std::unique_ptr<ShardReduction> node_first_reduction(const NodePeers& nodes);

}  // namespace slimpack
