#include "slimpack/packflow/ranks/process_transfers.h"

#include <numeric>

namespace slimpack {

void wait_for(Travelling& messages) {
  for (ProcessPeers::Message& message : messages) message.wait();
}

std::int64_t sum_of(const std::vector<std::int64_t>& sizes, const Mesh::Block& block) {
  return std::accumulate(sizes.begin() + block.begin, sizes.begin() + block.end, std::int64_t{0});
}

void all_gather_in_place(ProcessPeers& peers, const at::Tensor& all_N,
                         const std::vector<std::int64_t>& sizes) {
  const Mesh mesh(peers.group().size, peers.index());
  const auto of_block = [&](const Mesh::Block& block) {
    return all_N.narrow(0, sum_of(sizes, {0, block.begin}), sum_of(sizes, block));
  };
  const auto of_member = [&](std::int32_t m) { return of_block({m, m + 1}); };
  Travelling messages = begin_exchange(
      peers, mesh.own, [&](std::int32_t /*to*/) { return of_member(peers.index()); }, of_member);
  wait_for(messages);
  using Kind = ProcessPeers::Transfer::Kind;
  std::vector<ProcessPeers::Transfer> transfers;
  for (const Mesh::Received& r : mesh.received)
    transfers.push_back({Kind::kReceive, of_block(r.block), r.from});
  for (const std::int32_t m : mesh.targets)
    transfers.push_back({Kind::kSend, of_block(mesh.own), m});
  messages = peers.begin(std::move(transfers));
  wait_for(messages);
}

}  // namespace slimpack
