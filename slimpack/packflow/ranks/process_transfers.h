// Transfers between processes that several collectives use.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/packflow/ranks/mesh.h"
#include "slimpack/packflow/ranks/process_exchange.h"

namespace slimpack {

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

}  // namespace slimpack
