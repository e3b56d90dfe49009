#include "slimpack/packflow/ranks/process_exchange.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace slimpack {
namespace {

/// A send that has left once someone says or waits so.
struct Leaving : c10d::Work {
  bool isCompleted() override { return left; }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    awaited = true;
    return left = true;
  }
  bool left = false;
  bool awaited = false;
};

struct Sends final : c10d::Backend {
  Sends() : Backend(0, 2) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& /*tensors*/, int /*to*/,
                                      int /*tag*/) override {
    works.push_back(c10::make_intrusive<Leaving>());
    return works.back();
  }
  std::vector<c10::intrusive_ptr<Leaving>> works;
};

/// The sending end of a channel that holds two messages.
struct Sender {
  Sender() {
    group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, sends);
    c10d::register_process_group("sends", group);
    peers = std::make_unique<ProcessPeers>(RankGroup{GroupKind::kForward, 2}, "sends");
    channel = std::make_unique<ProcessChannel>(nullptr, peers.get(), 2);
  }
  ~Sender() { c10d::unregister_process_group("sends"); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Whether the memory of each message so far is still held.
  [[nodiscard]] std::vector<bool> held() const {
    std::vector<bool> out;
    for (const at::Tensor& tensor : tensors) out.push_back(tensor.use_count() > 1);
    return out;
  }
  void send() {
    tensors.push_back(at::ones({1, 1}));
    channel->send(tensors.back());
  }

  c10::intrusive_ptr<Sends> sends = c10::make_intrusive<Sends>();
  c10::intrusive_ptr<c10d::ProcessGroup> group = c10::make_intrusive<c10d::ProcessGroup>(0, 2);
  std::unique_ptr<ProcessPeers> peers;
  std::unique_ptr<ProcessChannel> channel;
  std::vector<at::Tensor> tensors;
};

TEST(ProcessChannel, HoldsAsManySendsAsItMayAndWaitsForTheOldest) {
  Sender sender;
  sender.send();
  sender.send();
  EXPECT_EQ(sender.held(), (std::vector<bool>{true, true}));
  EXPECT_FALSE(sender.sends->works[0]->awaited);
  sender.send();
  EXPECT_TRUE(sender.sends->works[0]->awaited);
  EXPECT_FALSE(sender.sends->works[1]->awaited);
  EXPECT_EQ(sender.held(), (std::vector<bool>{false, true, true}));
  sender.channel->settle();
  EXPECT_EQ(sender.held(), (std::vector<bool>{false, false, false}));
}

TEST(ProcessChannel, GivesTheMemoryOfWhatHasLeftBackWithTheNextSend) {
  Sender sender;
  sender.send();
  sender.sends->works[0]->left = true;
  sender.send();
  EXPECT_EQ(sender.held(), (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace slimpack
