
#include <gtest/gtest.h>

#include <thread>

#include "slimpack/base/progress.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "tests/packflow/support/pretended_device.h"

namespace slimpack {
namespace {

using testing::kPretended;

/// Runs `work` on a thread with a queue of its own.
template <class Work>
void on_own_queue(Work work) {
  std::jthread([&] {
    use_own_queue(kPretended);
    work();
  });
}

/// A tensor to which 1 is copied by a copy that the host does not wait for.
at::Tensor copied_later() {
  const at::Tensor there = at::zeros({1}, kPretended);
  at::Tensor(there).copy_(at::ones({1}).pin_memory(), /*non_blocking=*/true);
  return there;
}

TEST(WorkMark, LetsAnotherQueueWaitAndNotTheHost) {
  at::Tensor given, ordered, sum;
  WorkMark mark;
  on_own_queue([&] {
    given = at::ones({3}, kPretended);
    mark = WorkMark(kPretended, WorkMark::Kind::kOrder);
  });
  on_own_queue([&] {
    const std::int64_t waits = testing::pretended_calls_of_thread().waits;
    mark.order_queue_after();
    sum = given + given;
    EXPECT_EQ(testing::pretended_calls_of_thread().waits, waits);
    finish_queue(kPretended);
  });
  EXPECT_TRUE(sum.cpu().equal(at::full({3}, 2.0)));
}

TEST(WorkMark, WithoutItQueuesRaceOnThePretendedDevice) {
  // The tests of ranks rely on these errors.
  at::Tensor given;
  on_own_queue([&] { given = at::ones({3}, kPretended); });
  on_own_queue([&] { EXPECT_ANY_THROW(static_cast<void>(given + given)); });
  at::Tensor read;
  on_own_queue([&] {
    read = at::ones({4}, kPretended);
    finish_queue(kPretended);
  });
  on_own_queue([&] {
    EXPECT_NO_THROW(static_cast<void>(read + read));  // the host has waited
    finish_queue(kPretended);
    EXPECT_NO_THROW(static_cast<void>(read.narrow(0, 0, 2) + 1));
  });
  on_own_queue([&] {
    EXPECT_ANY_THROW(read.narrow(0, 1, 2).zero_());           // overlaps what was read
    EXPECT_NO_THROW(static_cast<void>(read + 1));             // both read
    EXPECT_NO_THROW(read.narrow(0, 2, 2).zero_().add_(1.0));  // other elements
  });
}

TEST(WorkMark, TheHostWaitsOnceForIt) {
  on_own_queue([] {
    const at::Tensor there = copied_later();
    const WorkMark mark(kPretended, WorkMark::Kind::kTime);
    const std::int64_t waits = testing::pretended_calls_of_thread().waits;
    mark.await();
    mark.await();
    EXPECT_EQ(testing::pretended_calls_of_thread().waits, waits + 1);
    EXPECT_EQ(testing::seen_by_cpu(there).item<float>(), 1.0F);
  });
}

TEST(WorkMark, OfACpuIsNothing) {
  const WorkMark mark(at::kCPU, WorkMark::Kind::kOrder);
  mark.await();
  mark.order_queue_after();
}

TEST(RankClock, KnowsWhenADeviceCameToAMomentWithoutWaitingThere) {
  // A copy that the host puts off for 20 ms ends after them, whenever the moment was asked for.
  on_own_queue([] {
    const Nanos start = monotonic_now();
    const RankClock clock(ClockKind::kWall, start, nullptr, kPretended);
    const RankClock::Moment before = clock.moment();
    const at::Tensor there = copied_later();
    const std::int64_t waits = testing::pretended_calls_of_thread().waits;
    const RankClock::Moment after = clock.moment();
    EXPECT_EQ(testing::pretended_calls_of_thread().waits, waits);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Nanos begin = clock.time_of(before), end = clock.time_of(after);
    EXPECT_GE(begin, Nanos(0));
    EXPECT_GE(end - begin, from_seconds(0.020));
    // Both clocks met within the time that a wait takes to return.
    EXPECT_LE(end, clock.now() + from_seconds(0.010));
  });
}

}  // namespace
}  // namespace slimpack
