#include "slimpack/packflow/ranks/thread_world.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/ranks/thread_room.h"
#include "tests/packflow/support/messages.h"

namespace slimpack {
namespace {

using namespace std::chrono_literals;
using testing::backward_to;
using testing::forward_to;
using testing::number;
using testing::returns;
using testing::waits;

double value_of(const at::Tensor& tensor) {
  return tensor.item<double>();
}

/// A job's ranks, each with a wall clock.
struct Job {
  explicit Job(const RankGrid& grid, int slots = 1) : world(grid, slots) {
    for (std::int32_t r = 0; r < grid.ranks(); ++r) clocks.emplace_back(ClockKind::kWall, Nanos(0));
  }

  std::unique_ptr<Communicator> rank(std::int32_t r) {
    return world.communicator(r, clocks[static_cast<std::size_t>(r)]);
  }

  ThreadWorld world;
  std::deque<RankClock> clocks;
};

RankGrid stages(std::int32_t count) {
  return {.pipeline = count};
}

TEST(ThreadWorld, DeliversEachDirectionInItsOwnOrder) {
  Job group(stages(3), 4);
  const auto first = group.rank(0), middle = group.rank(1), last = group.rank(2);
  for (const double v : {1.0, 2.0, 3.0}) {
    first->send(forward_to(1), number(v));
    last->send(backward_to(1), number(10 * v));
  }
  for (const double v : {1.0, 2.0, 3.0}) {
    EXPECT_EQ(value_of(middle->receive(backward_to(1))), 10 * v);
    EXPECT_EQ(value_of(middle->receive(forward_to(1))), v);
  }
}

TEST(ThreadWorld, HandsTheTensorOverWithoutACopy) {
  Job group(stages(2), 1);
  const auto sender = group.rank(0), receiver = group.rank(1);
  at::Tensor tensor = number(1);
  const void* const data = tensor.const_data_ptr();
  sender->send(forward_to(1), std::move(tensor));
  EXPECT_EQ(receiver->receive(forward_to(1)).const_data_ptr(), data);
}

TEST(ThreadWorld, ASenderWaitsForAFreeSlotAndNoLonger) {
  Job group(stages(2), 2);
  const auto sender = group.rank(0), receiver = group.rank(1);
  sender->send(forward_to(1), number(1));
  sender->send(forward_to(1), number(2));
  auto third = std::async(std::launch::async, [&] { sender->send(forward_to(1), number(3)); });
  EXPECT_TRUE(waits(third));
  receiver->send(backward_to(0), number(0));  // the other direction has slots of its own
  EXPECT_EQ(value_of(receiver->receive(forward_to(1))), 1);
  EXPECT_TRUE(returns(third));
  EXPECT_EQ(value_of(receiver->receive(forward_to(1))), 2);
  EXPECT_EQ(value_of(receiver->receive(forward_to(1))), 3);
}

TEST(ThreadWorld, AReceiverWaitsForAMessage) {
  Job group(stages(2), 1);
  const auto sender = group.rank(1), receiver = group.rank(0);
  auto call =
      std::async(std::launch::async, [&] { return value_of(receiver->receive(backward_to(0))); });
  EXPECT_TRUE(waits(call));
  sender->send(backward_to(0), number(5));
  ASSERT_TRUE(returns(call));
  EXPECT_EQ(call.get(), 5);
}

TEST(ThreadWorld, MessagesKeepTheirOrderThroughAFullChannel) {
  Job group(stages(2), 3);
  const auto sender = group.rank(0), receiver = group.rank(1);
  constexpr int kMessages = 2000;
  auto sending = std::async(std::launch::async, [&] {
    for (int i = 0; i < kMessages; ++i) sender->send(forward_to(1), number(i));
  });
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(value_of(receiver->receive(forward_to(1))), i);
  EXPECT_TRUE(returns(sending));
}

TEST(ThreadWorld, RefusesToSendBeyondTheEnds) {
  Job group(stages(2), 1);
  EXPECT_THROW(group.rank(1)->send(forward_to(2), number(0)), InternalError);
  EXPECT_THROW(group.rank(0)->send(backward_to(-1), number(0)), InternalError);
}

TEST(ThreadWorld, EveryStageOfARankHasInboxesOfItsOwn) {
  // Two ranks with two stages each form a ring: stages 0 and 2, 1 and 3.
  Job group({.pipeline = 2, .placement = StagePlacement::looped(2, 2)}, 1);
  const auto first = group.rank(0), second = group.rank(1);
  first->send(forward_to(1), number(1));
  first->send(forward_to(3), number(3));  // another inbox, so it has a slot
  EXPECT_EQ(value_of(second->receive(forward_to(3))), 3);
  EXPECT_EQ(value_of(second->receive(forward_to(1))), 1);
  second->send(forward_to(2), number(2));  // around the ring
  first->send(backward_to(1), number(-1));
  EXPECT_EQ(value_of(first->receive(forward_to(2))), 2);
  EXPECT_EQ(value_of(second->receive(backward_to(1))), -1);
  EXPECT_THROW(second->send(forward_to(4), number(0)), InternalError);
}

TEST(ThreadWorld, SumsInRankOrderRoundAfterRound) {
  // In rank order (1e16 + 1) + −1e16 = 0 in fp64, since 1e16 + 1 rounds to 1e16; any order that
  // adds the large ones first gives 1.
  constexpr double kValues[] = {1e16, 1, -1e16};
  Job group(stages(3), 1);
  std::atomic<int> right = 0;
  std::vector<std::jthread> ranks;
  for (int r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      const auto communicator = group.rank(r);
      for (int round = 0; round < 200; ++round) {
        right += communicator->world().gathering().sum(kValues[r]) == 0;
        right += communicator->world().gathering().sum(round * (r + 1)) == 6 * round;
      }
    });
  ranks.clear();
  EXPECT_EQ(right, 3 * 2 * 200);
}

TEST(ThreadWorld, TheEndsOfATiedModelBothGetTheSumWhileTheMiddleDoesSomethingElse) {
  Job group(stages(3), 1);
  at::Tensor first = number(1), last = number(2);
  const auto middle = group.rank(1);
  auto summing = std::async(std::launch::async, [&] { return middle->world().gathering().sum(7); });
  const auto end = [&](int rank, at::Tensor& gradient) {
    return std::async(std::launch::async, [&, rank] {
      const c10::InferenceMode as_a_rank;  // which alone may write to these tensors
      const auto communicator = group.rank(rank);
      communicator->tied().shards().all_reduce(gradient);
      return communicator->world().gathering().sum(0);
    });
  };
  auto a = end(0, first), b = end(2, last);
  ASSERT_TRUE(returns(a) && returns(b) && returns(summing));
  EXPECT_EQ(value_of(first), 3);
  EXPECT_EQ(value_of(last), 3);
  EXPECT_EQ(summing.get(), 7);
}

struct Cause : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(ThreadWorld, AFailureWakesEveryWaiterAtOnce) {
  // Each way to wait: to send, to receive, and in groups of every kind.
  const auto slowest_wake = [] {
    // Rank 3 · replica + stage.
    Job group({.pipeline = 3, .replicas = 2}, 1);
    at::Tensor gradient = number(1);
    std::vector<std::function<void(Communicator&)>> calls{
        [](Communicator& c) { static_cast<void>(c.receive(forward_to(0))); },
        [](Communicator& c) {
          for (;;) c.send(forward_to(2), number(0));
        },
        [&](Communicator& c) { c.tied().shards().all_reduce(gradient); },
        [](Communicator& c) {
          c.data().shards().start_reduce_scatter(number(1));
          c.data().shards().finish_reduce_scatter();
        },
        [](Communicator& c) { static_cast<void>(c.context(2).gathering().all_gather(number(1))); },
        [](Communicator& c) { static_cast<void>(c.world().gathering().sum(1)); }};
    std::vector<std::future<void>> waiting;
    for (std::size_t i = 0; i < calls.size(); ++i)
      waiting.push_back(std::async(
          std::launch::async, [&, i] { calls[i](*group.rank(static_cast<std::int32_t>(i))); }));
    for (auto& call : waiting) EXPECT_TRUE(waits(call));
    const auto start = std::chrono::steady_clock::now();
    group.world.fail(std::make_exception_ptr(Cause("first")));
    group.world.fail(std::make_exception_ptr(Cause("second")));
    for (auto& call : waiting) EXPECT_THROW(call.get(), PeerFailed);
    const auto took = std::chrono::steady_clock::now() - start;
    try {
      std::rethrow_exception(group.world.cause());
    } catch (const Cause& cause) {
      EXPECT_STREQ(cause.what(), "first");
    }
    return took;
  };
  // A busy machine may keep any thread from running for a while; it does not do so every time.
  auto best = slowest_wake();
  for (int i = 0; i < 4 && best > 100ms; ++i) best = std::min(best, slowest_wake());
  EXPECT_LT(best, 100ms);
}

TEST(ThreadRoom, ThreadsMakeRoomsAtOnceAndAFailureWakesWhoeverWaitsInOne) {
  // Groups of replicas make rooms at once when each begins its circles in a step.
  constexpr std::size_t kThreads = 4, kRooms = 20'000;
  for (int run = 0; run < 20; ++run) {
    SharedFailure failure;
    std::array<std::deque<ThreadRoom>, kThreads> rooms;
    std::barrier together(kThreads + 1);
    std::vector<std::future<void>> waiting;
    for (std::deque<ThreadRoom>& own : rooms)
      waiting.push_back(std::async(std::launch::async, [&] {
        RankClock clock(ClockKind::kWall, Nanos(0));
        together.arrive_and_wait();
        for (std::size_t i = 0; i < kRooms; ++i) own.emplace_back(failure);
        together.arrive_and_wait();
        auto lock = own.back().lock();
        own.back().wait(lock, clock, [] { return false; });
      }));
    together.arrive_and_wait();
    together.arrive_and_wait();
    failure.fail(std::make_exception_ptr(Cause("gone")));
    for (auto& call : waiting) {
      ASSERT_TRUE(returns(call));
      EXPECT_THROW(call.get(), PeerFailed);
    }
  }
}

TEST(ThreadWorld, EveryCallAfterAFailureThrows) {
  Job group(stages(1), 1);
  const auto alone = group.rank(0);
  EXPECT_EQ(alone->world().gathering().sum(4), 4);
  EXPECT_NO_THROW(alone->require_peers());
  group.world.fail(std::make_exception_ptr(Cause("gone")));
  EXPECT_THROW(static_cast<void>(alone->world().gathering().sum(4)), PeerFailed);
  EXPECT_THROW(static_cast<void>(alone->receive(forward_to(0))), PeerFailed);
  EXPECT_THROW(static_cast<void>(alone->data().gathering().all_gather(number(1))), PeerFailed);
  EXPECT_THROW(alone->require_peers(), PeerFailed);
}

TEST(ThreadWorld, TheLastOfASumFailsTooWhenAnotherHasGivenUp) {
  Job group(stages(2), 1);
  auto waiting =
      std::async(std::launch::async, [&] { return group.rank(0)->world().gathering().sum(1); });
  EXPECT_TRUE(waits(waiting));
  group.world.fail(std::make_exception_ptr(Cause("gone")));
  EXPECT_THROW(static_cast<void>(waiting.get()), PeerFailed);
  EXPECT_THROW(static_cast<void>(group.rank(1)->world().gathering().sum(1)), PeerFailed);
}

/// Runs `work(rank, its communicator)` on a thread for each rank.
void on_ranks(Job& job, std::int32_t ranks,
              const std::function<void(std::int32_t, Communicator&)>& work) {
  std::vector<std::jthread> threads;
  for (std::int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const c10::InferenceMode as_a_rank;
      const auto communicator = job.rank(r);
      work(r, *communicator);
    });
}

std::vector<double> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<double>(), tensor.const_data_ptr<double>() + tensor.numel()};
}

TEST(ThreadWorld, GroupsHoldTheRanksOfTheirKind) {
  // Three replicas of two stages with two tensor-parallel ranks: rank (2 · replica + stage) · 2 +
  // t. Replicas 0 and 1 can merge; 2 has no partner.
  const RankGrid grid{.pipeline = 2, .replicas = 3, .tensor = 2};
  Job job(grid);
  std::array<std::array<double, 4>, 12> sums{};
  on_ranks(job, 12, [&](std::int32_t r, Communicator& c) {
    auto& mine = sums[static_cast<std::size_t>(r)];
    mine[0] = c.data().gathering().sum(r);
    mine[1] = c.tensor().gathering().sum(r);
    mine[2] = c.tied().gathering().sum(r);
    if (r < 8) mine[3] = c.context(2).gathering().sum(r);
  });
  for (std::int32_t r = 0; r < 12; ++r) {
    const RankPlace place = grid.place(r);
    EXPECT_EQ(grid.rank(place), r);
    const double first = 2 * place.pipeline + place.tensor;  // of replica 0; + 4 for each next
    const auto& mine = sums[static_cast<std::size_t>(r)];
    EXPECT_EQ(mine[0], 3 * first + 4 + 8);
    EXPECT_EQ(mine[1], 2 * (r - place.tensor) + 1);
    EXPECT_EQ(mine[2], 2 * (4 * place.replica.value() + place.tensor) + 2);
    EXPECT_EQ(mine[3], r < 8 ? 2 * first + 4 : 0);
  }
  EXPECT_THROW(static_cast<void>(job.rank(8)->context(2)), InternalError);
}

TEST(ThreadWorld, ReductionsLeaveTheSumInEachMembersShardAndNothingElse) {
  // Five elements over three members: shards [0, 1), [1, 3), [3, 5). Sums are in member order:
  // (1e16 + 1) − 1e16 = 0 in fp64.
  constexpr double kValues[] = {1e16, 1, -1e16};
  Job job({.replicas = 3});
  std::array<at::Tensor, 3> flat, second;
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    const auto m = static_cast<std::size_t>(r);
    flat[m] = at::full({5}, kValues[r], at::kDouble);
    second[m] = at::full({3}, r + 1.0, at::kDouble);
    c.data().shards().start_reduce_scatter(flat[m]);
    c.data().shards().start_reduce_scatter(second[m]);
    c.data().shards().await_reduce_scatter();
    c.data().shards().finish_reduce_scatter();
    c.data().shards().finish_reduce_scatter();
    c.data().barrier();
  });
  EXPECT_EQ(values_of(flat[0]), (std::vector<double>{0, 1e16, 1e16, 1e16, 1e16}));
  EXPECT_EQ(values_of(flat[1]), (std::vector<double>{1, 0, 0, 1, 1}));
  EXPECT_EQ(values_of(flat[2]), (std::vector<double>{-1e16, -1e16, -1e16, 0, 0}));
  for (std::size_t m = 0; m < 3; ++m) EXPECT_EQ(second[m][static_cast<int>(m)].item<double>(), 6);
}

TEST(ThreadWorld, GathersWhatEveryMemberHas) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    at::Tensor flat = at::full({4}, r, at::kDouble);  // shards [0, 1), [1, 2), [2, 4)
    c.data().shards().all_gather_shards(flat);
    EXPECT_EQ(values_of(flat), (std::vector<double>{0, 1, 2, 2}));
    const auto all = c.data().gathering().all_gather(number(10 * r));
    for (int m = 0; m < 3; ++m) EXPECT_EQ(value_of(all[static_cast<std::size_t>(m)]), 10 * m);
  });
}

TEST(ThreadWorld, GathersRowsAtTheFirstMemberAlone) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    const at::Tensor own = at::full({r}, r, at::kDouble);  // none, one and two rows
    const auto all = c.data().gathering().gather(own);
    own.zero_();  // the caller's again
    c.data().barrier();
    ASSERT_EQ(all.size(), r == 0 ? 3U : 0U);
    if (r != 0) return;
    EXPECT_EQ(all[0].numel(), 0);
    EXPECT_EQ(values_of(all[1]), (std::vector<double>{1}));
    EXPECT_EQ(values_of(all[2]), (std::vector<double>{2, 2}));
  });
}

/// Six rows over three members: the first has none, the others every second one.
MemberRows rows_by_member() {
  return MemberRows({at::zeros({0}, at::kLong), at::arange(0, 6, 2), at::arange(1, 6, 2)});
}

TEST(ThreadWorld, GathersRowsOfAllMembersInTheirPlaces) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    // Row i of member m is 10 · m + i.
    const at::Tensor own = at::arange(r == 0 ? 0 : 3, at::kDouble).add_(10 * r);
    EXPECT_EQ(values_of(c.data().rows().all_gather_rows(own, rows_by_member())),
              (std::vector<double>{10, 20, 11, 21, 12, 22}));
  });
}

TEST(ThreadWorld, SumsRowsAndGivesEachMemberItsOwn) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    // Row i of member m's part is 1e16, 1 and −1e16 for m = 0, 1, 2, and i on top in that of the
    // last. In member order and fp64: (1e16 + 1) + (i − 1e16) = i, as 1e16 + 1 = 1e16 and i is even
    // or rounds to even: 1 to 0, 3 to 4, 5 to 4.
    constexpr double kValues[] = {1e16, 1, -1e16};
    at::Tensor part = at::full({6}, kValues[r], at::kDouble);
    if (r == 2) part.add_(at::arange(6, at::kDouble));
    const at::Tensor own = c.data().rows().reduce_scatter_rows(part, rows_by_member());
    const std::vector<std::vector<double>> expected{{}, {0, 2, 4}, {0, 4, 4}};
    EXPECT_EQ(values_of(own), expected[static_cast<std::size_t>(r)]);
  });
}

TEST(ThreadWorld, HandsTensorsOverInACircle) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    for (const std::int32_t step : {1, 2, -1}) {
      c.data().shifts().start_shift({number(r), number(r + 10)}, {0, 3}, step, {1, 1, 1});
      const auto got = c.data().shifts().finish_shift({0, 3});
      const int from = (r - step + 3) % 3;
      EXPECT_EQ(value_of(got[0]), from);
      EXPECT_EQ(value_of(got[1]), from + 10);
    }
  });
}

TEST(ThreadWorld, CirclesOfSomeMembersShiftWithoutTheOthers) {
  // Members 1 and 2 are in both circles, member 0 in one, and member 3 in none.
  constexpr Zone kWide{0, 3}, kNarrow{1, 2};
  Job job({.replicas = 4});
  on_ranks(job, 4, [&](std::int32_t r, Communicator& c) {
    Shifts& shifts = c.data().shifts();
    if (r == 3) return;
    shifts.start_shift({number(r)}, kWide, 1, {1, 1, 1});
    if (r == 0) {
      EXPECT_EQ(value_of(shifts.finish_shift(kWide)[0]), 2);
      return;
    }
    shifts.start_shift({number(r + 10)}, kNarrow, -1, {1, 1});
    EXPECT_EQ(value_of(shifts.finish_shift(kNarrow)[0]), 3 - r + 10);
    EXPECT_EQ(value_of(shifts.finish_shift(kWide)[0]), r - 1);
  });
}

TEST(ThreadWorld, FinishesShiftsInTheOrderInWhichTheyBegan) {
  Job job({.replicas = 3});
  on_ranks(job, 3, [&](std::int32_t r, Communicator& c) {
    c.data().shifts().start_shift({number(r)}, {0, 3}, 1, {1, 1, 1});
    c.data().shifts().start_shift({number(r + 10)}, {0, 3}, -1, {1, 1, 1});
    EXPECT_EQ(c.data().gathering().sum(1), 3);  // other calls may come between
    EXPECT_EQ(value_of(c.data().shifts().finish_shift({0, 3})[0]), (r + 2) % 3);
    EXPECT_EQ(value_of(c.data().shifts().finish_shift({0, 3})[0]), (r + 1) % 3 + 10);
  });
}

TEST(ThreadWorld, WhatIsHandedOverCountsOnItsReceiverAlone) {
  // 100 numbers of 8 bytes from each of two ranks to the other.
  constexpr std::int32_t kFirstRank = 40;
  Job job({.replicas = 2});
  on_ranks(job, 2, [&](std::int32_t r, Communicator& c) {
    const MemoryScope charged(kFirstRank + r);
    const Bytes before = live_bytes(kFirstRank + r);
    reset_peak(kFirstRank + r);
    std::vector<at::Tensor> given{at::zeros({100}, at::kDouble)};
    const void* const data = given[0].const_data_ptr();
    c.data().shifts().start_shift(std::move(given), {0, 2}, 1, {100, 100});
    const auto got = c.data().shifts().finish_shift({0, 2});
    EXPECT_NE(got[0].const_data_ptr(), data);
    c.data().barrier();
    EXPECT_EQ(live_bytes(kFirstRank + r) - before, Bytes(800));
    EXPECT_EQ(peak_bytes(kFirstRank + r) - before, Bytes(800));
    c.data().barrier();
  });
}

}  // namespace
}  // namespace slimpack
