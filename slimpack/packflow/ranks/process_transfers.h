// Transfers between the processes of a group that several collectives use: who talks to whom, an
// all-gather in place, and connections between the members, made before the first step.
//
// NCCL connects two ranks in each direction with the first message that goes there, also where the
// group's communicator has been made before. Until both have come, neither host goes on (NCCL
// #1346: "could therefore lead to hangs"). In the middle of a step the other rank may itself wait
// for this one in another group.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/cost/reduction.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

/// One member's part of an all-gather in two rounds. Blocks of about √n neighbours
/// (cost/reduction.h) exchange what they have; then members of different blocks exchange what
/// their blocks have. So a member talks to about 2·√n others instead of n − 1. A small group is one
/// block and needs one round.
///
/// A reduce-scatter has the same partners. A member first sums what its block has for itself and
/// for its targets, and then gives each target its sum.
struct Mesh {
  Mesh(std::int32_t members, std::int32_t index);

  using Block = MemberBlock;
  [[nodiscard]] static std::vector<Block> blocks(std::int32_t members) {
    return member_blocks(members);
  }

  Block own;  ///< the members that exchange in the first round, with this one

  /// A block whose tensors the member gets in the second round.
  struct Received {
    Block block;
    std::int32_t from = 0;  ///< a member of the block
  };
  std::vector<Received> received;
  std::vector<std::int32_t> targets;  ///< who gets what the own block has
};

using Travelling = std::vector<ProcessPeers::Message>;

void wait_for(Travelling& messages);

/// Begins to send given(member) to every other one of `members`, and to receive taken(member) from
/// it.
template <class Given, class Taken>
[[nodiscard]] Travelling begin_exchange(ProcessPeers& peers, const Mesh::Block& members,
                                        const Given& given, const Taken& taken) {
  using Kind = ProcessPeers::Transfer::Kind;
  std::vector<ProcessPeers::Transfer> transfers;
  for (std::int32_t m = members.begin; m < members.end; ++m) {
    if (m == peers.index()) continue;
    transfers.push_back({Kind::kReceive, taken(m), m});
    transfers.push_back({Kind::kSend, given(m), m});
  }
  return peers.begin(std::move(transfers));
}

/// Begins to exchange tensors with all members of the group, as the function above does with some.
template <class Given, class Taken>
[[nodiscard]] Travelling begin_exchange(ProcessPeers& peers, const Given& given,
                                        const Taken& taken) {
  return begin_exchange(peers, {0, peers.group().size}, given, taken);
}

/// The sum of the members' sizes over the members of a block.
[[nodiscard]] std::int64_t sum_of(const std::vector<std::int64_t>& sizes, const Mesh::Block& block);

/// Fills the tensor with the parts of all members, which lie end to end; member m's has sizes[m]
/// elements. Each member has its own one.
void all_gather_in_place(ProcessPeers& peers, const at::Tensor& all_N,
                         const std::vector<std::int64_t>& sizes);

/// Passes one number between this member and each of those that it may talk to on the device, both
/// ways: in groups that sum gradients its partners of the mesh, else all others. Waits for them.
/// Throws PeerLost. REQUIRES: all members call it, and all ranks call it for their groups in one
/// order.
void connect_members(ProcessPeers& peers, c10::Device device);

/// Connects a group of two of which one alone sends.
void connect_edge(ProcessPeers& peers, bool sends, c10::Device device);

}  // namespace slimpack
