#include "slimpack/packflow/ranks/world.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/support/thread_processes.h"

namespace slimpack {
namespace {

using testing::ThreadJob;
using testing::ThreadProcess;
using Texts = std::vector<std::string>;

std::shared_future<std::string> at_once(const std::string& text) {
  std::promise<std::string> promise;
  promise.set_value(text);
  return promise.get_future().share();
}

TEST(GatherWhenReady, WaitsInRoundsForTheSlowestAndGivesWhatEachHas) {
  ThreadJob job(2);
  ThreadProcess quick(job, 0), slow(job, 1);
  std::promise<std::string> late;
  Texts of_slow;
  std::thread other([&] { of_slow = gather_when_ready(slow, late.get_future().share()); });
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    late.set_value("written");
  });
  const Texts of_quick = gather_when_ready(quick, at_once(""));
  other.join();
  ends.join();
  EXPECT_EQ(of_quick, (Texts{"", "written"}));
  EXPECT_EQ(of_slow, of_quick);
  EXPECT_GT(quick.rounds, 1);  // of 200 ms at most: no single wait is as long as the work
  EXPECT_EQ(quick.rounds, slow.rounds);
}

TEST(GatherWhenReady, ThrowsWhatItsOwnWorkThrows) {
  ThreadJob job(2);
  ThreadProcess member(job, 0);
  std::promise<std::string> failed;
  failed.set_exception(std::make_exception_ptr(std::runtime_error("unreadable")));
  EXPECT_THROW(static_cast<void>(gather_when_ready(member, failed.get_future().share())),
               std::runtime_error);
  EXPECT_EQ(member.rounds, 0);
}

}  // namespace
}  // namespace slimpack
