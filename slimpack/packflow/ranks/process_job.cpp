#include "slimpack/packflow/ranks/process_job.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "slimpack/base/progress.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/process_collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"
#include "slimpack/packflow/ranks/process_transfers.h"

namespace slimpack {

std::vector<RankGroup> process_groups(const RankGrid& grid, std::int32_t rank) {
  std::vector<RankGroup> groups = edge_groups(grid, rank);
  // The order is world, data, its nodes, tensor, pipeline, vocabulary, contexts, tied.
  // Kinds that some ranks lack come last.
  for (const RankGroup& group : collective_groups(grid, rank))
    if (group.size > 1) groups.push_back(group);
  return groups;
}

/// The state that survives a step: connections, and messages that are still leaving.
struct ProcessJob::Ends {
  Ends(const RankGrid& grid, std::int32_t rank, const std::map<RankGroup, std::string>& names,
       const GradientSums& gradient_sums)
      : sums(gradient_sums) {
    const auto connect = [&](const RankGroup& group) {
      return std::make_unique<ProcessPeers>(group, group.size > 1 ? names.at(group) : "");
    };
    for (const RankGroup& group : collective_groups(grid, rank))
      collectives.emplace(group, connect(group));
    std::array<ProcessPeers*, 2> sources{}, targets{};  // forward, backward
    for (const RankGroup& group : edge_groups(grid, rank)) {
      if (group.size == 1) continue;
      const bool ring =
          group.kind == GroupKind::kRingForward || group.kind == GroupKind::kRingBackward;
      const bool forward =
          group.kind == GroupKind::kForward || group.kind == GroupKind::kRingForward;
      // Forward, the first member sends to the second, and in the ring the last to the first.
      const bool sends = (group.first == rank) == (forward != ring);
      edges.push_back({connect(group), sends});
      (sends ? targets : sources)[forward ? 0 : 1] = edges.back().peers.get();
    }
    if (edges.empty()) return;
    for (const std::size_t way : {0, 1})
      channels.emplace_back(sources[way], targets[way], kHeldSends);
  }

  /// Connects the rank with all whom it talks to on the device, group by group in the order in
  /// which all ranks made them.
  void connect_on(at::Device device) {
    if (std::exchange(connected, true)) return;
    for (const Edge& edge : edges) connect_edge(*edge.peers, edge.sends, device);
    const bool by_node = find(GroupKind::kDataInNode) != nullptr;
    for (const auto& [group, peers] : collectives) {
      // The first exchanges on the CPU alone, and where nodes sum first, the second exchanges
      // nothing.
      const bool silent = group.kind == GroupKind::kData && by_node;
      if (group.kind == GroupKind::kWorld || silent) continue;
      const bool sum = sums_gradients(group.kind) || group.kind == GroupKind::kTied;
      (sum ? sums.connect : connect_members)(*peers, device);
    }
  }

  /// How the group sums gradients: those of all replicas node by node, where nodes have several.
  [[nodiscard]] std::unique_ptr<ShardReduction> reduction(const RankGroup& group,
                                                          ProcessPeers& peers) const {
    ProcessPeers* const in_node = find(GroupKind::kDataInNode);
    if (group.kind != GroupKind::kData || in_node == nullptr) return sums.reduction(peers);
    return node_first_reduction(sums.reduction(*in_node),
                                sums.reduction(*find(GroupKind::kDataAcrossNodes)),
                                in_node->group().size, in_node->index());
  }

  /// The ranks' work between two barriers took so long.
  void note_step(Nanos took) {
    constexpr int kSteps = 4;
    if (kSteps * took.count() <= timeout.count()) return;
    timeout = Nanos(kSteps * took.count());
    for (const auto& [group, peers] : collectives)
      if (group.size > 1 && sums_gradients(group.kind)) peers->set_timeout(timeout);
  }

  [[nodiscard]] ProcessPeers& world() { return *collectives.begin()->second; }
  /// The only group of this kind; null: the grid has none.
  [[nodiscard]] ProcessPeers* find(GroupKind kind) const {
    const auto it =
        std::ranges::find(collectives, kind, [](const auto& c) { return c.first.kind; });
    return it == collectives.end() ? nullptr : it->second.get();
  }

  std::map<RankGroup, std::unique_ptr<ProcessPeers>> collectives;  ///< the world comes first
  struct Edge {
    std::unique_ptr<ProcessPeers> peers;
    bool sends;  ///< this rank to the other one
  };
  std::vector<Edge> edges;               ///< in the order of edge_groups()
  std::vector<ProcessChannel> channels;  ///< to the next rank, to the one before; empty if alone
  std::function<bool()> failed;
  bool connected = false;
  Nanos timeout{0};  ///< of groups that sum gradients
  GradientSums sums;
};

class ProcessJob::Member final : public GroupedCommunicator {
 public:
  Member(Ends& ends, const RankGrid& grid) : ends_(ends), grid_(grid) {
    for (const auto& [group, peers] : ends.collectives)
      add(group, process_collective(*peers, ends.reduction(group, *peers),
                                    grid.route ? grid.ranks_per_node : 0));
  }

  void post_receive(Inbox inbox, const MessageForm& form) override {
    channel(inbox).post_receive(local(inbox), form);
  }
  void send(Inbox inbox, at::Tensor rows_TH) override { channel(inbox).send(std::move(rows_TH)); }
  at::Tensor receive(Inbox inbox) override { return channel(inbox).receive(local(inbox)); }
  void settle() override {
    for (ProcessChannel& c : ends_.channels) c.settle();
    ends_.note_step(monotonic_now() - begun_);
  }
  /// None: processes have the wall clock alone.
  [[nodiscard]] std::span<const WaitedInput> waited_inputs() const override { return {}; }

  void require_peers() override {
    if (ends_.failed()) throw PeerLost("another rank failed");
  }

 private:
  ProcessChannel& channel(Inbox inbox) {
    const std::int32_t step = inbox.direction == Direction::kForward ? 1 : -1;
    const StageId from(inbox.stage.value() - step);
    return ends_.channels.at(grid_.goes_up(from, inbox.stage) ? 0 : 1);
  }
  [[nodiscard]] std::int32_t local(Inbox inbox) const {
    return grid_.placement.local_stage(inbox.stage);
  }

  Ends& ends_;
  RankGrid grid_;
  Nanos begun_ = monotonic_now();
};

/// A process has one rank, so fail() has no other rank to wake. Other processes see that the
/// connections close.
class ProcessJob::ConnectedWorld final : public World {
 public:
  ConnectedWorld(Ends& ends, const RankGrid& grid) : ends_(ends), grid_(grid) {}

  std::unique_ptr<Communicator> communicator(std::int32_t /*rank*/, RankClock& clock) override {
    ends_.connect_on(clock.device());
    return std::make_unique<Member>(ends_, grid_);
  }
  void fail(std::exception_ptr cause) override { cause_ = std::move(cause); }
  [[nodiscard]] std::exception_ptr cause() const override { return cause_; }

 private:
  Ends& ends_;
  RankGrid grid_;
  std::exception_ptr cause_;
};

ProcessJob::ProcessJob(const RankGrid& grid, std::int32_t rank,
                       const std::map<RankGroup, std::string>& names, std::function<bool()> failed,
                       Nanos timeout, const GradientSums& sums)
    : grid_(grid), rank_(rank), ends_(std::make_unique<Ends>(grid, rank, names, sums)) {
  ends_->failed = std::move(failed);
  ends_->timeout = timeout;
}

ProcessJob::~ProcessJob() = default;

std::unique_ptr<World> ProcessJob::make_world() {
  process_collective(ends_->world()).barrier();
  return std::make_unique<ConnectedWorld>(*ends_, grid_);
}

std::vector<std::string> ProcessJob::all_gather(const std::string& own) {
  Collective world = process_collective(ends_->world());
  const at::Tensor own_B = byte_tensor(std::as_bytes(std::span(own)));
  const at::Tensor size = at::full({1}, own_B.numel(), at::kLong);
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& of_member : world.gathering().all_gather(size))
    sizes.push_back(of_member.item<std::int64_t>());
  std::vector<std::string> texts;
  for (const at::Tensor& text_B : all_gather_sized(ends_->world(), own_B, sizes))
    texts.emplace_back(static_cast<const char*>(text_B.const_data_ptr()),
                       static_cast<std::size_t>(text_B.numel()));
  return texts;
}

}  // namespace slimpack
