#include "slimpack/packflow/ranks/process_transfers.h"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace slimpack {

Mesh::Mesh(std::int32_t members, std::int32_t index) {
  const std::vector<Block> all = blocks(members);
  // The member of a block that serves the members at this place of other blocks, which may have
  // more members.
  const auto source = [](const Block& of, std::int32_t place) {
    return of.begin + place % of.size();
  };
  for (const Block& block : all)
    if (block.begin <= index && index < block.end) own = block;
  for (const Block& other : all) {
    if (other == own) continue;
    received.push_back({other, source(other, index - own.begin)});
    for (std::int32_t m = other.begin; m < other.end; ++m)
      if (source(own, m - other.begin) == index) targets.push_back(m);
  }
}

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

namespace {

/// Whom a member talks to.
std::set<std::int32_t> partners(const RankGroup& group, std::int32_t index) {
  std::set<std::int32_t> members;
  const auto add = [&](const Mesh::Block& block) {
    for (std::int32_t m = block.begin; m < block.end; ++m) members.insert(m);
  };
  if (sums_gradients(group.kind)) {
    const Mesh mesh(group.size, index);
    add(mesh.own);
    for (const Mesh::Received& r : mesh.received) members.insert(r.from);
    members.insert(mesh.targets.begin(), mesh.targets.end());
  } else {
    add({0, group.size});
  }
  members.erase(index);
  return members;
}

at::Tensor number_on(c10::Device device) {
  return at::zeros({1}, at::dtype(at::kFloat).device(device));
}

}  // namespace

void connect_members(ProcessPeers& peers, c10::Device device) {
  using Kind = ProcessPeers::Transfer::Kind;
  std::vector<ProcessPeers::Transfer> transfers;
  for (const std::int32_t m : partners(peers.group(), peers.index())) {
    transfers.push_back({Kind::kReceive, number_on(device), m});
    transfers.push_back({Kind::kSend, number_on(device), m});
  }
  Travelling messages = peers.begin(std::move(transfers));
  wait_for(messages);
}

void connect_edge(ProcessPeers& peers, bool sends, c10::Device device) {
  const std::int32_t other = 1 - peers.index();
  (sends ? peers.send(number_on(device), other) : peers.receive(number_on(device), other)).wait();
}

}  // namespace slimpack
