#include "slimpack/packflow/ranks/connect_members.h"

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "slimpack/packflow/ranks/mesh.h"
#include "slimpack/packflow/ranks/process_transfers.h"

namespace slimpack {
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
