#include "slimpack/training/process_message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>

#include "slimpack/base/compressed_text.h"
#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

HandedPlan planned(const testing::PlanRequest& request) {
  RunnablePlan step = *plan_step(request, testing::small_cost(request.dp)).step;
  return {std::move(step.plan), std::move(step.lowered)};
}

HandedPlan small_plan() {
  return planned({.lengths = {Tokens(300), Tokens(90), Tokens(20)}, .pp = 2, .dp = 2});
}

std::string message_of(const HandedPlan& handed) {
  return plan_message(handed.plan, handed.lowered);
}

RC_GTEST_PROP(PlanMessage, HandsOverEveryFieldOfAnyPlan, (std::uint64_t seed)) {
  Rng rng(seed);
  const HandedPlan handed = planned(testing::random_replicas(rng));
  RC_ASSERT(plan_from_message(message_of(handed), "the plan of rank 0") == handed);
}

TEST(PlanMessage, IsRefusedWhereverItIsCutOff) {
  const std::string message = message_of(small_plan());
  for (std::size_t size = 0; size < message.size(); ++size)
    expect_invalid_input([&] { (void)plan_from_message(message.substr(0, size), "step 3"); },
                         {"step 3"});
}

TEST(PlanMessage, IsRefusedWhereverAByteIsAnother) {
  const std::string whole = message_of(small_plan());
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string message = whole;
    message[place] = static_cast<char>(message[place] ^ 1);
    expect_invalid_input([&] { (void)plan_from_message(message, "step 3"); }, {"step 3"});
  }
}

TEST(PlanMessage, IsCheckedAgainWhereItIsReceived) {
  const auto refused = [](const HandedPlan& handed, std::string_view why) {
    expect_invalid_input([&] { (void)plan_from_message(message_of(handed), "step 3"); },
                         {"step 3", why});
  };
  HandedPlan handed = small_plan();
  handed.plan.lengths[0] += Tokens(1);  // its last token is in no MicroPack
  refused(handed, "not a correct plan");
  handed = small_plan();
  std::swap(handed.lowered[0].ranks[0].front(), handed.lowered[0].ranks[0].back());
  refused(handed, "not a correct schedule");
  handed = small_plan();
  handed.lowered.pop_back();
  refused(handed, "1 schedules for 2 replicas");
  handed = small_plan();
  handed.lowered[1].ranks.pop_back();
  refused(handed, "has 1 ranks, the plan has 2");
}

TEST(PlanMessage, OfAnotherTextIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("{}\0", 3), std::string("\0", 1)})
    expect_invalid_input([&] { (void)plan_from_message(compressed(text), "step 3"); }, {"step 3"});
}

}  // namespace
}  // namespace slimpack
