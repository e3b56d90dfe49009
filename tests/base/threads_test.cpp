#include "slimpack/base/threads.h"

#include <gtest/gtest.h>

#include <system_error>
#include <thread>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

[[noreturn]] int no_thread() {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

TEST(Threads, AThreadThatCannotStartIsALineWithWhatItWasForAndTheLimits) {
  expect_run_failed([] { (void)started("rank 3 of 4", no_thread); },
                    {"cannot start a thread for rank 3 of 4; the system allows ",
                     "kernel.threads-max", "raise the limit"});
}

TEST(Threads, OtherErrorsOfAStartPassAsTheyAre) {
  const auto other = []() -> int {
    throw std::system_error(std::make_error_code(std::errc::permission_denied));
  };
  EXPECT_THROW((void)started("it", other), std::system_error);
  EXPECT_EQ(started("it", [] { return 5; }), 5);
}

TEST(Threads, AsManyThreadsAsCanRunAreNoError) {
  require_threads(0);
  require_threads(1);
  require_threads(20);
}

TEST(Threads, WhatOneThreadMayBeToldOthersDoNotTell) {
  int told = 0;
  const auto tell = on_this_thread([&] { ++told; });
  tell();
  std::jthread(tell).join();
  EXPECT_EQ(told, 1);
  on_this_thread(nullptr)();  // nobody to tell
}

}  // namespace
}  // namespace slimpack
