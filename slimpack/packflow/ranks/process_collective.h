// Groups of ranks that are processes.
//
// Members send everything directly to each other, and every member sums its own shard in member
// order. This sends as many bytes as a ring, and gives the same bits as threads.
#pragma once

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// A member's end. `peers` must outlive it. Calls throw PeerLost.
[[nodiscard]] Collective process_collective(ProcessPeers& peers);

}  // namespace slimpack
