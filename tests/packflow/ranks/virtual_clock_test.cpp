#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/thread_world.h"
#include "tests/packflow/support/messages.h"

namespace slimpack {
namespace {

using testing::backward_to;
using testing::forward_to;
using testing::number;
using testing::returns;
using testing::waits;

/// Spends processor time.
void work(Nanos time) {
  const RankClock clock(ClockKind::kVirtual, Nanos(0));
  while (clock.now() < time) {
  }
}

TEST(VirtualClock, CountsOwnWorkAndWaitsForOthersWork) {
  // Whoever shares a processor with whom: 30 ms of work before a message, then 10 ms of another on
  // it, whose answer comes back at 40; so both meet at 40.
  ThreadWorld world({.pipeline = 2}, 1);
  Nanos sent, received, answered, met;
  std::jthread first([&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    const auto c = world.communicator(0, clock);
    work(from_seconds(0.030));
    c->send(forward_to(1), number(1));
    sent = clock.now();
    static_cast<void>(c->receive(backward_to(0)));
    answered = clock.now();
    c->world().barrier();
  });
  std::jthread second([&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    const auto c = world.communicator(1, clock);
    static_cast<void>(c->receive(forward_to(1)));
    received = clock.now();
    work(from_seconds(0.010));
    c->send(backward_to(0), number(1));
    c->world().barrier();
    met = clock.now();
  });
  first.join();
  second.join();
  // A little is spent on the calls themselves.
  const auto expect_near = [](Nanos time, double seconds) {
    EXPECT_GE(time, from_seconds(seconds));
    EXPECT_LT(time, from_seconds(seconds + 0.005));
  };
  expect_near(sent, 0.030);
  expect_near(received, 0.030);
  expect_near(answered, 0.040);
  expect_near(met, 0.040);
}

TEST(VirtualClock, ASenderWaitsUntilItsSlotWasFree) {
  // One slot: the second message can go only when the first was received, 20 ms late.
  ThreadWorld world({.pipeline = 2}, 1);
  Nanos sent{};
  std::jthread receiver([&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    const auto c = world.communicator(1, clock);
    work(from_seconds(0.020));
    for (int i = 0; i < 2; ++i) static_cast<void>(c->receive(forward_to(1)));
  });
  std::jthread sender([&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    const auto c = world.communicator(0, clock);
    for (int i = 0; i < 2; ++i) c->send(forward_to(1), number(i));
    sent = clock.now();
  });
  receiver.join();
  sender.join();
  EXPECT_GE(sent, from_seconds(0.020));
  EXPECT_LT(sent, from_seconds(0.025));
}

TEST(VirtualClock, WhatWaitsCountsByTheClocksAndOnItsReceiverOnceItIsTaken) {
  // A message of 800 bytes is put at 10 ms and taken at 30. The sender's thread runs first.
  ThreadWorld world({.pipeline = 2}, 1);
  const Bytes before = live_bytes(kMaxTrackedRanks - 1);
  std::jthread([&] {
    const MemoryScope charged(kMaxTrackedRanks - 1);
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    work(from_seconds(0.010));
    world.communicator(0, clock)->send(forward_to(1), at::zeros({100}, at::kDouble));
  }).join();
  EXPECT_EQ(live_bytes(kMaxTrackedRanks - 1), before);
  std::jthread([&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0));
    const auto c = world.communicator(1, clock);
    EXPECT_EQ(live_bytes(1), Bytes(0));
    EXPECT_TRUE(c->waited_inputs().empty());
    work(from_seconds(0.030));
    const at::Tensor taken = c->receive(forward_to(1));
    EXPECT_EQ(live_bytes(1), Bytes(800));
    ASSERT_EQ(c->waited_inputs().size(), 1U);
    const WaitedInput& input = c->waited_inputs().front();
    EXPECT_GE(input.put, from_seconds(0.010));
    EXPECT_LT(input.put, from_seconds(0.015));
    EXPECT_GE(input.taken, from_seconds(0.030));
    EXPECT_LT(input.taken, from_seconds(0.035));
    EXPECT_EQ(input.bytes, Bytes(800));
  }).join();
}

TEST(VirtualClock, NoMoreRanksComputeAtOnceThanThereAreProcessors) {
  ThreadWorld world({.pipeline = 2}, 1);
  ProcessorTurns turns;
  std::vector<std::unique_ptr<RankClock>> computing;
  for (std::int32_t p = 0; p < processors(); ++p)
    computing.push_back(std::make_unique<RankClock>(ClockKind::kVirtual, Nanos(0), &turns));
  auto late = std::async(std::launch::async, [&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0), &turns);
    static_cast<void>(world.communicator(1, clock)->receive(forward_to(1)));
  });
  EXPECT_TRUE(waits(late));
  // One rank is done; the late rank computes, and while it waits for its message another one may.
  computing.pop_back();
  auto other = std::async(std::launch::async, [&] {
    RankClock clock(ClockKind::kVirtual, Nanos(0), &turns);
    world.communicator(0, clock)->send(forward_to(1), number(1));
  });
  EXPECT_TRUE(returns(other));
  EXPECT_TRUE(returns(late));
}

TEST(VirtualClock, WallTimeNeedsNoTurn) {
  ProcessorTurns turns;
  std::deque<RankClock> clocks;
  for (int r = 0; r < 1000; ++r) clocks.emplace_back(ClockKind::kWall, Nanos(0), &turns);
}

}  // namespace
}  // namespace slimpack
