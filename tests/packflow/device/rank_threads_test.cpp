#include "slimpack/packflow/device/rank_threads.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <vector>

#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

std::string told(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST(RankThreads, RunEveryRankAndChargeItsTensorsToIt) {
  RankThreads threads(3, /*pin=*/true);
  for (int round = 0; round < 2; ++round) {
    std::array<std::atomic<std::int32_t>, 3> charged{-1, -1, -1};
    threads.run(
        [&](std::int32_t rank) { charged.at(static_cast<std::size_t>(rank)) = tracked_rank(); });
    for (std::int32_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(charged.at(static_cast<std::size_t>(rank)), rank);
  }
}

TEST(RankThreads, ArePinnedToTheProcessorsThatTheProcessMayUse) {
  const std::vector<int> usable = usable_processors();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(static_cast<std::size_t>(processors()), usable.size());
  RankThreads threads(3, /*pin=*/true);
  threads.run([&](std::int32_t rank) {
    const int own = usable.at(static_cast<std::size_t>(rank) % usable.size());
    EXPECT_EQ(usable_processors(), std::vector<int>{own});
    // A process that `taskset` holds to one processor of many counts one, too.
    EXPECT_EQ(processors(), 1);
  });
}

TEST(RankThreads, MoreThanAreCountedAreRefused) {
  const RankThreads most(kMaxTrackedRanks, /*pin=*/false);
  EXPECT_EQ(most.ranks(), kMaxTrackedRanks);
  expect_invalid_input([] { const RankThreads more(kMaxTrackedRanks + 1, /*pin=*/false); },
                       {"65 ranks", "64 at most"});
}

TEST(RankThreads, WhoeverMakesThemIsToldWhyTheyCannotStart) {
  // There is no such device, so no rank gets a queue on it.
  EXPECT_THROW(RankThreads(2, false, c10::Device(c10::DeviceType::FPGA, 0)), std::runtime_error);
}

TEST(RankThreads, MakeADeviceDeterministicOrNot) {
  const auto of_libtorch = [] { return at::globalContext().deterministicAlgorithms(); };
  for (const bool deterministic : {false, true}) {
    const RankThreads threads(1, false, testing::kPretended, deterministic);
    EXPECT_EQ(of_libtorch(), deterministic);
  }
  const RankThreads on_cpu(1, false, c10::Device(c10::kCPU), false);
  EXPECT_TRUE(of_libtorch());  // a CPU's operators are left alone
}

TEST(RankFailure, IsOneLineThatNamesTheRank) {
  try {
    TORCH_CHECK(false, "out of memory");
  } catch (...) {
    EXPECT_EQ(told(failure_of(3)), "rank 3: out of memory");
  }
  try {
    invalid_input("no such thing");
  } catch (...) {
    EXPECT_THROW(std::rethrow_exception(failure_of(3)), InvalidInput);
  }
}

}  // namespace
}  // namespace slimpack
