#include "slimpack/training/plan_ahead.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using namespace std::chrono_literals;
using testing::PlanRequest;
using testing::random_request;
using testing::small_cost;

constexpr auto kForever = 30s;  // a test that waits this long has failed
constexpr auto kAWhile = 20ms;

RC_GTEST_PROP(PlanAhead, TakesThePlansOfPlanningInLineInTheirOrder, (std::uint64_t seed)) {
  Rng rng(seed);
  const Costs cost = small_cost();
  std::vector<PlanRequest> requests(1 + rng.below(4));
  for (PlanRequest& request : requests) request = random_request(rng);

  std::size_t drawn = 0;
  PlanAhead<PlanOutcome> ahead([&] { return plan_step(requests[drawn++], cost); });
  ahead.start();
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const PlanOutcome ready = ahead.take().step;
    if (r + 1 < requests.size()) ahead.start();
    // The text holds plan, schedule and prediction.
    const PlanOutcome in_line = plan_step(requests[r], cost);
    RC_ASSERT(plan_file_to_json(*ready.step, cost) == plan_file_to_json(*in_line.step, cost));
  }
}

TEST(PlanAhead, SaysWhetherAStepIsReady) {
  std::promise<int> result;
  PlanAhead<int> ahead([&] { return result.get_future().get(); });
  ahead.start();
  EXPECT_FALSE(ahead.ready_within(kAWhile));
  result.set_value(7);
  EXPECT_TRUE(ahead.ready_within(kForever));
  EXPECT_EQ(ahead.take().step, 7);
}

TEST(PlanAhead, PreparesWhileTheCallerDoesSomethingElse) {
  std::promise<void> begun;
  std::promise<void> caller_went_on;
  PlanAhead<bool> ahead([&] {
    begun.set_value();
    return caller_went_on.get_future().wait_for(kForever) == std::future_status::ready;
  });
  ahead.start();
  EXPECT_EQ(begun.get_future().wait_for(kForever), std::future_status::ready);
  caller_went_on.set_value();
  EXPECT_TRUE(ahead.take().step);
}

TEST(PlanAhead, PreparesNothingBeforeItIsAskedTo) {
  int prepared = 0;
  PlanAhead<int> ahead([&] { return ++prepared; });
  ahead.start();
  EXPECT_EQ(ahead.take().step, 1);
  std::this_thread::sleep_for(kAWhile);
  EXPECT_EQ(prepared, 1);
}

TEST(PlanAhead, SaysHowLongItWaited) {
  PlanAhead<int> ahead([] {
    std::this_thread::sleep_for(kAWhile);
    return 0;
  });
  // The wait is the whole while, unless this thread loses the processor between its two calls: so
  // it may take several attempts to see half of it.
  const Nanos half(std::chrono::nanoseconds(kAWhile).count() / 2);
  Nanos waited;
  for (int attempt = 0; attempt < 100 && waited < half; ++attempt) {
    ahead.start();
    const Nanos before = monotonic_now();
    waited = ahead.take().waited;
    ASSERT_LE(waited, monotonic_now() - before);
  }
  EXPECT_GE(waited, half);
}

TEST(PlanAhead, ThrowsAnErrorWhenItsStepIsTakenAndGoesOn) {
  int step = 0;
  PlanAhead<int> ahead([&] {
    if (step++ == 1) invalid_input("document {} is bad; mend it", 7);
    return step;
  });
  ahead.start();
  EXPECT_EQ(ahead.take().step, 1);
  ahead.start();
  try {
    (void)ahead.take();
    FAIL() << "the error of step 2 is lost";
  } catch (const InvalidInput& e) {
    EXPECT_STREQ(e.what(), "document 7 is bad; mend it");
  }
  ahead.start();
  EXPECT_EQ(ahead.take().step, 3);
}

TEST(PlanAhead, IsDestroyedInTheMiddleOfAStepOnlyWhenThatIsOver) {
  bool over = false;
  std::promise<void> begun;
  const auto train = [&] {
    PlanAhead<int> ahead([&] {
      begun.set_value();
      std::this_thread::sleep_for(kAWhile);
      over = true;
      return 0;
    });
    ahead.start();
    EXPECT_EQ(begun.get_future().wait_for(kForever), std::future_status::ready);
    throw Interrupted("training was stopped");
  };
  EXPECT_THROW(train(), Interrupted);
  EXPECT_TRUE(over);
}

TEST(PlanAhead, DropsAnErrorThatNobodyTakes) {
  bool thrown = false;
  {
    PlanAhead<int> ahead([&]() -> int {
      thrown = true;
      invalid_input("the documents of a step that is never trained are bad; mend them");
    });
    ahead.start();
  }
  EXPECT_TRUE(thrown);
}

TEST(PlanAhead, RefusesToBeUsedOutOfOrder) {
  PlanAhead<int> ahead([] { return 0; });
  EXPECT_THROW((void)ahead.take(), InternalError);
  ahead.start();
  EXPECT_THROW(ahead.start(), InternalError);
  EXPECT_EQ(ahead.take().step, 0);
  EXPECT_THROW((void)ahead.take(), InternalError);
}

}  // namespace
}  // namespace slimpack
