// Connections between the members of a group, made before the first step.
//
// NCCL connects two ranks in each direction with the first message that goes there, also where the
// group's communicator has been made before. Until both have come, neither host goes on (NCCL
// #1346: "could therefore lead to hangs"). In the middle of a step the other rank may itself wait
// for this one in another group.
#pragma once

#include <c10/core/Device.h>

#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// Passes one number between this member and each of those that it may talk to on the device, both
/// ways: in groups that sum gradients its partners of the mesh, else all others. Waits for them.
/// Throws PeerLost. REQUIRES: all members call it, and all ranks call it for their groups in one
/// order.
void connect_members(ProcessPeers& peers, c10::Device device);

/// Connects a group of two of which one alone sends.
void connect_edge(ProcessPeers& peers, bool sends, c10::Device device);

}  // namespace slimpack
