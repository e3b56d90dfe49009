#include "slimpack/packflow/ranks/process_collective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>

#include "slimpack/packflow/ranks/thread_world.h"

namespace slimpack {
namespace {

/// Messages under way between threads that stand for processes.
class Mail {
 public:
  using Address = std::tuple<int, int, int>;  ///< from, to, tag

  void put(const Address& address, at::Tensor tensor) {
    const std::lock_guard lock(mutex_);
    messages_[address] = std::move(tensor);
    partners_[std::get<0>(address)].insert(std::get<1>(address));
    partners_[std::get<1>(address)].insert(std::get<0>(address));
    changed_.notify_all();
  }
  at::Tensor take(const Address& address) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return messages_.contains(address); });
    at::Tensor tensor = std::move(messages_[address]);
    messages_.erase(address);
    return tensor;
  }
  /// With how many others a member has exchanged messages.
  std::size_t partners(int member) { return partners_[member].size(); }
  [[nodiscard]] bool empty() const { return messages_.empty(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Address, at::Tensor> messages_;
  std::map<int, std::set<int>> partners_;
};

struct Sent : c10d::Work {
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

struct Received : c10d::Work {
  Received(Mail& from, const Mail::Address& at, at::Tensor to)
      : mail(from), address(at), tensor(std::move(to)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    tensor.copy_(mail.take(address));
    return true;
  }
  Mail& mail;
  Mail::Address address;
  at::Tensor tensor;
};

/// A backend of c10d that sends and receives through the mail.
class MailBackend final : public c10d::Backend {
 public:
  MailBackend(int rank, int size, Mail& mail) : Backend(rank, size), mail_(mail) {}

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    mail_.put({getRank(), to, tag}, tensors.front().clone());
    return c10::make_intrusive<Sent>();
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from,
                                      int tag) override {
    return c10::make_intrusive<Received>(mail_, Mail::Address(from, getRank(), tag),
                                         tensors.front());
  }

 private:
  Mail& mail_;
};

/// A member's process group, registered while it lives.
class Registered {
 public:
  Registered(int rank, int size, Mail& mail)
      : name_(fmt::format("mail {} of {}", rank, size)),
        group_(c10::make_intrusive<c10d::ProcessGroup>(rank, size)) {
    group_->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                       c10::make_intrusive<MailBackend>(rank, size, mail));
    c10d::register_process_group(name_, group_);
  }
  ~Registered() { c10d::unregister_process_group(name_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;  // the registry does not own it
};

/// Runs work(collective, member) for all members of a group of processes, each on a thread.
template <class Work>
void on_processes(std::int32_t size, Mail& mail, const Work& work) {
  std::vector<std::jthread> threads;
  for (std::int32_t m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const Registered registered(m, size, mail);
      ProcessPeers peers({GroupKind::kData, size}, registered.name());
      Collective group = process_collective(peers);
      work(group, m);
    });
}

/// The same on ranks that are threads.
template <class Work>
void on_threads(std::int32_t size, const Work& work) {
  ThreadWorld world({.replicas = size}, 1);
  std::deque<RankClock> clocks;
  for (std::int32_t m = 0; m < size; ++m) clocks.emplace_back(ClockKind::kWall, Nanos(0));
  std::vector<std::jthread> threads;
  for (std::int32_t m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const auto communicator = world.communicator(m, clocks[static_cast<std::size_t>(m)]);
      work(communicator->data(), m);
    });
}

/// What a member gives: values whose sums differ in their last bits if they are added in another
/// order.
at::Tensor values_of(std::int32_t member, std::int64_t size) {
  return at::sin(at::arange(size, at::kFloat) * (member + 1)) * std::exp(member % 5);
}

class ProcessCollective : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(ProcessCollective, ReducesShardsToTheBitsOfThreads) {
  const std::int32_t size = GetParam();
  constexpr std::int64_t kElements = 50;  // less than one for each of the largest group's members
  std::vector<at::Tensor> processes(static_cast<std::size_t>(size)), threads = processes;
  const auto work = [&](std::vector<at::Tensor>& out) {
    return [&](Collective& group, std::int32_t m) {
      at::Tensor first_N = values_of(m, kElements), second_N = values_of(m + 7, kElements - 3);
      group.shards().start_reduce_scatter(first_N);
      group.shards().start_reduce_scatter(second_N);
      group.shards().finish_reduce_scatter();
      group.shards().finish_reduce_scatter();
      group.barrier();
      group.shards().all_gather_shards(first_N);
      group.shards().all_gather_shards(second_N);
      at::Tensor third_N = values_of(m + 3, kElements);
      group.shards().all_reduce(third_N);
      out[static_cast<std::size_t>(m)] = at::cat({first_N, second_N, third_N});
      group.barrier();
    };
  };
  Mail mail;
  on_processes(size, mail, work(processes));
  on_threads(size, work(threads));
  EXPECT_TRUE(mail.empty());
  // An independent sum, in fp64.
  at::Tensor expected_N = at::zeros({kElements}, at::kDouble);
  for (std::int32_t m = 0; m < size; ++m) expected_N += values_of(m, kElements);
  for (std::size_t m = 0; m < processes.size(); ++m) {
    EXPECT_TRUE(processes[m].equal(threads[m])) << "member " << m;
    EXPECT_TRUE(processes[m].equal(processes[0])) << "member " << m;
    const at::Tensor first_N = processes[m].narrow(0, 0, kElements).to(at::kDouble);
    EXPECT_TRUE(first_N.allclose(expected_N, 1e-5, 1e-3)) << "member " << m;
  }
}

TEST_P(ProcessCollective, GathersWhatEachMemberHas) {
  const std::int32_t size = GetParam();
  Mail mail;
  on_processes(size, mail, [&](Collective& group, std::int32_t m) {
    const std::vector<at::Tensor> all =
        group.gathering().all_gather(at::full({2, 3}, m, at::kDouble));
    ASSERT_EQ(std::ssize(all), size);
    for (std::int32_t other = 0; other < size; ++other)
      EXPECT_TRUE(all[static_cast<std::size_t>(other)].equal(at::full({2, 3}, other, at::kDouble)));
    EXPECT_EQ(group.gathering().sum(m), size * (size - 1) / 2);
    // Member m has m % 4 rows.
    const auto at_first = group.gathering().gather(at::full({m % 4, 2}, m, at::kDouble));
    ASSERT_EQ(std::ssize(at_first), m == 0 ? size : 0);
    for (std::int32_t other = 0; other < std::ssize(at_first); ++other)
      EXPECT_TRUE(at_first[static_cast<std::size_t>(other)].equal(
          at::full({other % 4, 2}, other, at::kDouble)));
  });
  EXPECT_TRUE(mail.empty());
}

// Nine members are three blocks of three; 23 are four of five or six; 64 are eight of eight.
INSTANTIATE_TEST_SUITE_P(Sizes, ProcessCollective, ::testing::Values(1, 2, 5, 8, 9, 16, 23, 64));

TEST(ProcessCollective, OfManyMembersTalksToFew) {
  Mail mail;
  on_processes(64, mail, [&](Collective& group, std::int32_t m) {
    at::Tensor values_N = values_of(m, 200);
    group.shards().all_reduce(values_N);
    static_cast<void>(group.gathering().gather(values_N));
  });
  // Seven in the block, seven other blocks; and the first member hears of the first one of each.
  for (int m = 0; m < 64; ++m) EXPECT_LE(mail.partners(m), 14U) << "member " << m;
}

}  // namespace
}  // namespace slimpack
