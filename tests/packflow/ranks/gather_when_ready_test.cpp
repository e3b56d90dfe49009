#include "slimpack/packflow/ranks/gather_when_ready.h"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace slimpack {
namespace {

using Texts = std::vector<std::string>;

/// Two processes as two threads.
struct Job {
  std::barrier<> meeting{2};
  Texts texts{"", ""};
};

class Member final : public JobProcess {
 public:
  Member(Job& job, std::int32_t rank) : job_(job), rank_(rank) {}

  [[nodiscard]] std::vector<std::int32_t> ranks() const override { return {rank_}; }
  [[nodiscard]] std::unique_ptr<World> make_world() override { return nullptr; }
  [[nodiscard]] Texts all_gather(const std::string& own) override {
    ++rounds;
    job_.meeting.arrive_and_wait();
    job_.texts[static_cast<std::size_t>(rank_)] = own;
    job_.meeting.arrive_and_wait();
    return job_.texts;
  }

  int rounds = 0;

 private:
  Job& job_;
  std::int32_t rank_;
};

std::shared_future<std::string> at_once(const std::string& text) {
  std::promise<std::string> promise;
  promise.set_value(text);
  return promise.get_future().share();
}

TEST(GatherWhenReady, WaitsInRoundsForTheSlowestAndGivesWhatEachHas) {
  Job job;
  Member quick(job, 0), slow(job, 1);
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
  Job job;
  Member member(job, 0);
  std::promise<std::string> failed;
  failed.set_exception(std::make_exception_ptr(std::runtime_error("unreadable")));
  EXPECT_THROW(static_cast<void>(gather_when_ready(member, failed.get_future().share())),
               std::runtime_error);
  EXPECT_EQ(member.rounds, 0);
}

}  // namespace
}  // namespace slimpack
