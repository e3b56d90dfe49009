// Groups of ranks that are processes.
//
// Everything is sent from member to member, and every member adds up its own shard in member order:
// as many bytes as a ring sends, and the same bits as among threads.
#pragma once

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// A member's end. The peers outlive it. Calls throw PeerLost.
[[nodiscard]] Collective process_collective(ProcessPeers& peers);

}  // namespace slimpack
