// Sums of gradients between processes.
#pragma once

#include <cstdint>
#include <memory>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// A reduction by messages. Sums are added pairwise, so their bits do not depend on the backend,
/// nor on nodes. `peers` must outlive it.
[[nodiscard]] std::unique_ptr<ShardReduction> message_reduction(ProcessPeers& peers);

/// A reduction by collectives of PyTorch's backend, in the tensors themselves: NCCL takes no memory
/// beside its own buffers. Only where the members do not share the elements evenly, a copy of the
/// tensor is summed. `peers` must outlive it.
[[nodiscard]] std::unique_ptr<ShardReduction> backend_reduction(ProcessPeers& peers);

/// How the groups of a job sum gradients: chosen once, for all of them.
struct GradientSums {
  std::unique_ptr<ShardReduction> (*reduction)(ProcessPeers& peers);
  /// Connects the members of a group for it. REQUIRES: as connect_members.
  void (*connect)(ProcessPeers& peers, at::Device device);
};
/// `same_bits`: whether sums have the same bits in every run and on any number of nodes.
[[nodiscard]] GradientSums gradient_sums(bool same_bits);

/// The g members of a node sum first, each of them a part, and then exchange these sums with other
/// nodes. So a member sends 1/g of the bytes over network cards (as hybrid sharding does,
/// arXiv:2304.11277). A member owns the Shard of its node (replica_shard) within its part. A node's
/// sums leave it when the next reduction starts, or when one is awaited, on every member.
/// `in_node`: among a member's neighbours there (kDataInNode), `across`: among the members at its
/// place of all such groups (kDataAcrossNodes). `members`, `index`: of the node.
[[nodiscard]] std::unique_ptr<ShardReduction> node_first_reduction(
    std::unique_ptr<ShardReduction> in_node, std::unique_ptr<ShardReduction> across,
    std::int32_t members, std::int32_t index);

}  // namespace slimpack
