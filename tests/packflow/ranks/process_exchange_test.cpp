#include "slimpack/packflow/ranks/process_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "slimpack/packflow/ranks/process_job.h"
#include "tests/packflow/support/mail_processes.h"

namespace slimpack {
namespace {

/// Counts open groups of operations. Its peer has gone.
struct Coalesces final : c10d::Backend {
  Coalesces() : Backend(0, 2) {}
  [[nodiscard]] bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { ++open; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    --open;
    throw std::runtime_error("nothing was begun");
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& /*tensors*/, int /*to*/,
                                      int /*tag*/) override {
    throw std::runtime_error("connection closed");
  }
  int open = 0;
};

TEST(ProcessExchange, ClosesAGroupOfTransfersOfWhichOneFailsToBegin) {
  const auto backend = c10::make_intrusive<Coalesces>();
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 2);
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  c10d::register_process_group("coalesces", group);
  ProcessPeers peers({GroupKind::kTensor, 2}, "coalesces");
  try {
    static_cast<void>(peers.begin({{ProcessPeers::Transfer::Kind::kSend, at::ones({1}), 1}}));
    ADD_FAILURE() << "the send did not fail";
  } catch (const PeerLost& e) {
    // The cause is that of the send, not of the group's end.
    EXPECT_STREQ(e.what(), "rank 1 does not answer (tensor of ranks 0, 1): connection closed");
  }
  EXPECT_EQ(backend->open, 0);
  c10d::unregister_process_group("coalesces");
}

TEST(ProcessJob, ConnectsEachPairThatWillTalkBeforeTheFirstMessage) {
  // 2 stages x 2 replicas x 2 tensor-parallel ranks, all pairs of a group of two.
  const RankGrid grid{.pipeline = 2, .replicas = 2, .tensor = 2};
  testing::MailJob job(grid);
  std::vector<std::jthread> ranks;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank)
    ranks.emplace_back([&, rank] {
      RankClock clock(ClockKind::kWall, Nanos(0));
      for (int step = 0; step < 2; ++step)
        static_cast<void>(job.process(rank).make_world()->communicator(rank, clock));
    });
  ranks.clear();
  int groups = 0;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank)
    for (const RankGroup& group : process_groups(grid, rank)) {
      if (group.size == 1 || group.kind == GroupKind::kWorld) continue;
      const bool edge = group.kind == GroupKind::kForward || group.kind == GroupKind::kBackward;
      // Each member has sent one number to the other, once; on an edge one of the two has.
      EXPECT_EQ(job.messages(group), edge ? 1 : 2) << group.name();
      ++groups;
    }
  // Each rank has two edges, data, tensor, context, tied.
  EXPECT_EQ(groups, 8 * 6);
}

TEST(ProcessJob, GivesReplicasFourTimesTheLongestStepToSumGradients) {
  // Half the timeout four times is more than the timeout; a short step changes nothing.
  const RankGrid grid{.replicas = 2};
  constexpr std::chrono::milliseconds kTimeout(80), kLong(40), kShort(2);
  testing::MailJob job(grid, 0, Nanos(80'000'000));
  const RankGroup data{GroupKind::kData, 2}, context{GroupKind::kContext, 2};
  const auto step = [&](std::chrono::milliseconds took) {
    std::vector<std::jthread> ranks;
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank)
      ranks.emplace_back([&, rank] {
        RankClock clock(ClockKind::kWall, Nanos(0));
        const auto communicator = job.process(rank).make_world()->communicator(rank, clock);
        std::this_thread::sleep_for(took);
        communicator->settle();
      });
  };
  step(kShort);
  EXPECT_EQ(job.timeout(data).count(), 0) << "it has not been changed";
  step(kLong);
  const std::chrono::milliseconds first = job.timeout(data);
  EXPECT_GE(first, 4 * kLong);
  EXPECT_GT(first, kTimeout);
  step(kShort);
  EXPECT_EQ(job.timeout(data), first);
  EXPECT_EQ(job.timeout(context).count(), 0);
}

}  // namespace
}  // namespace slimpack
