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

/// The g members of a node sum first, each of them a part, and then exchange these sums with other
/// nodes. So a member sends 1/g of the bytes over network cards (as hybrid sharding does,
/// arXiv:2304.11277). Of its part a member owns the Shard of its node (replica_shard). A node's
/// sums leave it when the next reduction starts, or when one is awaited.
[[nodiscard]] std::unique_ptr<ShardReduction> node_first_reduction(const NodePeers& nodes);

}  // namespace slimpack
