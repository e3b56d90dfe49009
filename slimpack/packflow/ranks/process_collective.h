// Groups of ranks that are processes.
//
// Members send everything directly to each other, and every member sums its own shard. This sends
// as many bytes as a ring, and gives the same bits as threads. Where bits may differ, collectives
// of PyTorch's backend sum gradients instead (process_reduction.h). In large groups members pass on
// what others gave and sum for others (process_transfers.h), so that they need few connections. A
// reduction then sends one part in √n more.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"
#include "slimpack/packflow/ranks/process_reduction.h"

namespace slimpack {

/// The flat tensors of all members, of which member m's has sizes[m] elements. Members of a large
/// group pass on what others gave (process_transfers.h).
[[nodiscard]] std::vector<at::Tensor> all_gather_sized(ProcessPeers& peers, const at::Tensor& own_N,
                                                       const std::vector<std::int64_t>& sizes);

/// A member's end. `peers` must outlive it. `shards`: how the group sums gradients; null: by
/// messages. `route_over`: the ranks of a node, over which shifts to others are spread; 0 = not.
/// Calls throw PeerLost.
[[nodiscard]] Collective process_collective(ProcessPeers& peers,
                                            std::unique_ptr<ShardReduction> shards = nullptr,
                                            std::int32_t route_over = 0);

}  // namespace slimpack
