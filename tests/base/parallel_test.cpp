#include "slimpack/base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace slimpack {
namespace {

TEST(ForEachIndex, CallsEachIndexOnce) {
  for (const int threads : {0, 1, 2, 5})
    for (const std::size_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> calls(count);
      for_each_index(count, threads, [&](std::size_t i) { ++calls[i]; });
      for (const auto& n : calls) EXPECT_EQ(n, 1) << count << " on " << threads;
    }
}

TEST(ForEachIndex, UsesTheThreadsThatItMay) {
  // Every call waits for the other, so one thread alone would never end.
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  for_each_index(2, 2, [&](std::size_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    const std::scoped_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 2U);
}

TEST(ForEachIndex, RunsAllAndThrowsWhatTheLowestIndexThrew) {
  for (const int threads : {1, 3}) {
    std::atomic<int> calls{0};
    try {
      for_each_index(20, threads, [&](std::size_t i) {
        ++calls;
        if (i == 7 || i == 3) throw std::runtime_error(std::to_string(i));
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "3");
    }
    EXPECT_EQ(calls, 20);
  }
}

TEST(Processors, AreThoseThatTheThreadMayRunOn) {
  const std::vector<int> usable = usable_processors();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(processors(), static_cast<int>(usable.size()));
  // A program that `taskset` holds to one processor of many plans on one thread.
  std::jthread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(usable.back(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_processors(), std::vector<int>{usable.back()});
    EXPECT_EQ(processors(), 1);
  }).join();
}

}  // namespace
}  // namespace slimpack
