#include "slimpack/packflow/ranks/process_collective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "slimpack/packflow/ranks/thread_world.h"
#include "tests/packflow/support/mail_processes.h"

namespace slimpack {
namespace {

using slimpack::testing::Mail;
using slimpack::testing::MailGroup;

/// Runs work(collective, member) for all members of a group of processes, each on a thread.
template <class Work>
void on_processes(std::int32_t size, Mail& mail, const Work& work, std::int32_t route_over = 0) {
  std::vector<std::jthread> threads;
  for (std::int32_t m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const MailGroup member(fmt::format("member {} of {}", m, size), m, size, mail);
      ProcessPeers peers({GroupKind::kData, size}, member.name());
      Collective group = process_collective(peers, nullptr, route_over);
      work(group, m);
    });
}

/// Runs work(collective, member) for all members where groups of `in_node` members sum gradients
/// first.
template <class Work>
void on_nodes(std::int32_t size, std::int32_t in_node, const Work& work) {
  Mail all_mail;
  std::vector<Mail> node_mail(static_cast<std::size_t>(size / in_node));
  std::vector<Mail> across_mail(static_cast<std::size_t>(in_node));
  std::vector<std::jthread> threads;
  for (std::int32_t m = 0; m < size; ++m)
    threads.emplace_back([&, m] {
      const std::int32_t node = m / in_node, place = m % in_node, nodes = size / in_node;
      const MailGroup all(fmt::format("member {} of {}", m, size), m, size, all_mail);
      const MailGroup neighbours(fmt::format("member {} in its node of {}", m, in_node), place,
                                 in_node, node_mail[static_cast<std::size_t>(node)]);
      const MailGroup others(fmt::format("member {} across {} nodes", m, nodes), node, nodes,
                             across_mail[static_cast<std::size_t>(place)]);
      ProcessPeers peers({GroupKind::kData, size}, all.name());
      ProcessPeers in({GroupKind::kDataInNode, in_node, node * in_node}, neighbours.name());
      ProcessPeers across({GroupKind::kDataAcrossNodes, nodes, place, in_node}, others.name());
      Collective group = process_collective(
          peers,
          node_first_reduction(message_reduction(in), message_reduction(across), in_node, place));
      work(group, m);
    });
  threads.clear();
  EXPECT_TRUE(std::ranges::all_of(node_mail, &Mail::empty));
  EXPECT_TRUE(std::ranges::all_of(across_mail, &Mail::empty));
}

/// Runs work(collective, member) for all members, which are threads of one process.
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

/// The values that a member gives. Their sums differ in their last bits if they are added in
/// another order.
at::Tensor values_of(std::int32_t member, std::int64_t size) {
  return at::sin(at::arange(size, at::kFloat) * (member + 1)) * std::exp(member % 5);
}

class ProcessCollective : public ::testing::TestWithParam<std::int32_t> {};

constexpr std::int64_t kElements = 50;  // less than one for each of the largest group's members

/// Reduces two tensors at a time and then a third one. `out`: by member, the tensors that it then
/// has.
auto reducing(std::vector<at::Tensor>& out) {
  return [&out](Collective& group, std::int32_t m) {
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
}

TEST(PairwiseSum, HasTheSameBitsIfNeighboursAreSummedFirst) {
  for (std::int32_t n = 1; n <= 40; ++n) {
    std::vector<at::Tensor> parts;
    for (std::int32_t m = 0; m < n; ++m) parts.push_back(values_of(m, 100));
    const at::Tensor sum_N = add_pairwise(parts);
    EXPECT_TRUE(sum_N.allclose(at::stack(parts).sum(0), 1e-4, 1e-3)) << n;
    for (const std::size_t neighbours : {2, 4, 8, 16}) {
      std::vector<at::Tensor> sums;
      for (std::size_t begin = 0; begin < parts.size(); begin += neighbours)
        sums.push_back(add_pairwise(
            std::span(parts).subspan(begin, std::min(neighbours, parts.size() - begin))));
      EXPECT_TRUE(add_pairwise(sums).equal(sum_N)) << n << " in groups of " << neighbours;
    }
  }
}

TEST_P(ProcessCollective, ReducesShardsToTheBitsOfThreads) {
  const std::int32_t size = GetParam();
  std::vector<at::Tensor> processes(static_cast<std::size_t>(size)), threads = processes;
  Mail mail;
  on_processes(size, mail, reducing(processes));
  on_threads(size, reducing(threads));
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

TEST_P(ProcessCollective, NodesSumFirstToTheBitsOfThreads) {
  const std::int32_t size = GetParam();
  std::vector<at::Tensor> threads(static_cast<std::size_t>(size));
  on_threads(size, reducing(threads));
  for (const std::int32_t in_node : {2, 4, 8}) {
    if (size == in_node || size % in_node != 0) continue;
    std::vector<at::Tensor> processes(static_cast<std::size_t>(size));
    on_nodes(size, in_node, reducing(processes));
    for (std::size_t m = 0; m < processes.size(); ++m)
      EXPECT_TRUE(processes[m].equal(threads[m])) << "member " << m << ", nodes of " << in_node;
  }
}

/// Notes its calls; nothing ever arrives.
class NotedReduction final : public ShardReduction {
 public:
  NotedReduction(std::string name, std::vector<std::string>& calls)
      : name_(std::move(name)), calls_(calls) {}

  void start_reduce_scatter(at::Tensor /*flat_N*/) override { note("starts"); }
  void await_reduce_scatter() override { note("awaits"); }
  void finish_reduce_scatter() override { note("finishes"); }
  void all_gather_shards(at::Tensor& /*flat_N*/) override { note("gathers"); }
  void all_reduce(at::Tensor& /*tensor*/) override { note("reduces"); }

 private:
  void note(const std::string& call) { calls_.push_back(name_ + " " + call); }

  std::string name_;
  std::vector<std::string>& calls_;
};

TEST(NodeFirstReduction, HasOneOrderWhateverHasArrived) {
  // Members that start the second sum of the node before, and others after the first one has left
  // it, wait for each other on devices that synchronise.
  std::vector<std::string> calls;
  const auto reduction =
      node_first_reduction(std::make_unique<NotedReduction>("node", calls),
                           std::make_unique<NotedReduction>("across", calls), 2, 0);
  reduction->start_reduce_scatter(at::zeros({4}));
  reduction->start_reduce_scatter(at::zeros({4}));
  reduction->await_reduce_scatter();
  EXPECT_EQ(calls, (std::vector<std::string>{"node starts", "node finishes", "across starts",
                                             "node starts", "node finishes", "across starts",
                                             "across awaits"}));
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

TEST_P(ProcessCollective, ExchangesRowsAsThreadsDo) {
  // Row i of 3 · size + 1 rows belongs to member (i · i) % size: some have none, none has a
  // stretch.
  const std::int32_t size = GetParam();
  const std::int64_t rows = 3 * size + 1;
  std::vector<std::vector<std::int64_t>> numbers(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < rows; ++i)
    numbers[static_cast<std::size_t>(i * i % size)].push_back(i);
  std::vector<at::Tensor> rows_of;
  for (const auto& own : numbers) rows_of.push_back(at::tensor(own, at::kLong));
  const MemberRows held(rows_of);
  const at::Tensor all_T2 = values_of(1, rows * 2).view({rows, 2});
  std::vector<at::Tensor> processes(static_cast<std::size_t>(size)), threads = processes;
  const auto work = [&](std::vector<at::Tensor>& sums) {
    return [&](Collective& group, std::int32_t m) {
      const at::Tensor own = all_T2.index_select(0, rows_of[static_cast<std::size_t>(m)]);
      EXPECT_TRUE(group.rows().all_gather_rows(own, held).equal(all_T2)) << "member " << m;
      const at::Tensor part_T2 = values_of(m, rows * 2).view({rows, 2});
      sums[static_cast<std::size_t>(m)] = group.rows().reduce_scatter_rows(part_T2, held);
      group.barrier();
    };
  };
  Mail mail;
  on_processes(size, mail, work(processes));
  on_threads(size, work(threads));
  EXPECT_TRUE(mail.empty());
  at::Tensor sum_T2 = at::zeros({rows, 2}, at::kDouble);  // an independent sum, in fp64
  for (std::int32_t m = 0; m < size; ++m) sum_T2 += values_of(m, rows * 2).view({rows, 2});
  for (std::size_t m = 0; m < processes.size(); ++m) {
    EXPECT_TRUE(processes[m].equal(threads[m])) << "member " << m;
    EXPECT_TRUE(
        processes[m].to(at::kDouble).allclose(sum_T2.index_select(0, rows_of[m]), 1e-5, 1e-3));
  }
}

/// Two tensors of rows that say where they come from. Members pass different numbers of rows.
std::vector<std::int64_t> rows_of_members(const Zone& circle) {
  std::vector<std::int64_t> rows;
  for (std::int32_t m = 0; m < circle.size; ++m) rows.push_back(m * 3 % 7);  // some have none
  return rows;
}

TEST_P(ProcessCollective, ShiftsArriveWhateverNodesTheyAreRoutedOver) {
  const std::int32_t size = GetParam();
  const Zone circle{size > 4 ? 1 : 0, size > 4 ? size - 2 : size};
  const std::vector<std::int64_t> rows = rows_of_members(circle);
  for (const std::int32_t route_over : {0, 1, 2, 3, 4}) {
    Mail mail;
    on_processes(
        size, mail,
        [&](Collective& group, std::int32_t m) {
          if (!circle.has(m)) return;
          const std::int32_t place = m - circle.first;
          const auto own = [&](double tag) {
            return at::full({rows[static_cast<std::size_t>(place)], 2}, tag + place, at::kDouble);
          };
          // Two under way at a time. Nobody passes to itself.
          const std::int32_t back = circle.size == 2 ? -1 : -2;
          for (const std::int32_t step : {1, back})
            group.shifts().start_shift({own(0), own(100)}, circle, step, rows);
          for (const std::int32_t step : {1, back}) {
            const auto got = group.shifts().finish_shift(circle);
            const std::int32_t from = ((place - step) % circle.size + circle.size) % circle.size;
            const std::int64_t count = rows[static_cast<std::size_t>(from)];
            EXPECT_TRUE(at::equal(got[0], at::full({count, 2}, 0.0 + from, at::kDouble)));
            EXPECT_TRUE(at::equal(got[1], at::full({count, 2}, 100.0 + from, at::kDouble)));
          }
        },
        route_over);
    EXPECT_TRUE(mail.empty());
  }
}

TEST_P(ProcessCollective, GivesEachMemberWhatIsMeantForIt) {
  const std::int32_t size = GetParam();
  // Member `from` has so many rows for member `to`, each 1000 · from + to.
  const auto count = [](std::int32_t from, std::int32_t to) { return (from + 2 * to) % 4; };
  const auto work = [&](Collective& group, std::int32_t m) {
    std::vector<at::Tensor> given;
    std::vector<std::int64_t> counts;
    for (std::int32_t other = 0; other < size; ++other) {
      given.push_back(at::full({count(m, other), 3}, 1000.0 * m + other, at::kDouble));
      counts.push_back(count(other, m));
    }
    const std::vector<at::Tensor> taken = group.rows().all_to_all(std::move(given), counts);
    for (std::int32_t from = 0; from < size; ++from)
      EXPECT_TRUE(at::equal(taken[static_cast<std::size_t>(from)],
                            at::full({count(from, m), 3}, 1000.0 * from + m, at::kDouble)));
  };
  Mail mail;
  on_processes(size, mail, work);
  EXPECT_TRUE(mail.empty());
  on_threads(size, work);
}

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
