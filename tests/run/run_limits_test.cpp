#include "slimpack/run/run_limits.h"

#include <gtest/gtest.h>

#include <vector>

namespace slimpack {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TrainConfig ten_steps() {
  TrainConfig train;
  train.steps = 10;
  return train;
}

RunProgress after(std::int64_t steps, std::int64_t tokens) {
  RunProgress progress;
  progress.steps = steps;
  progress.tokens = Tokens(tokens);
  return progress;
}

TEST(RunLimits, AllowAllStepsWhereNothingElseIsSaid) {
  const RunLimits limits(ten_steps(), 0);
  EXPECT_TRUE(limits.allow_another(after(9, 1'000'000)));
  EXPECT_FALSE(limits.allow_another(after(10, 0)));
  EXPECT_FALSE(limits.out_of_time(after(9, 0)));
  EXPECT_EQ(limits.token_limit_reached(after(10, 0)), "");
}

TEST(RunLimits, EndARunWithTheStepThatReachesItsTokens) {
  TrainConfig train = ten_steps();
  train.max_tokens = Tokens(5000);
  const RunLimits limits(train, 0);
  EXPECT_TRUE(limits.allow_another(after(3, 4999)));
  EXPECT_EQ(limits.token_limit_reached(after(3, 4999)), "");
  EXPECT_FALSE(limits.allow_another(after(4, 5000)));
  EXPECT_EQ(limits.token_limit_reached(after(4, 5000)), "train.max_tokens = 5000 is reached");
  // All steps are done: no limit has ended this run.
  EXPECT_EQ(limits.token_limit_reached(after(10, 5000)), "");
}

TEST(RunLimits, CountTimeFromTheStartAndAllowItsFirstStepInAnyCase) {
  TrainConfig train = ten_steps();
  train.max_seconds = 30;
  Nanos now(7 * kSecond);
  const RunLimits limits(train, 4, [&] { return now; });
  now = Nanos(36 * kSecond);
  EXPECT_FALSE(limits.out_of_time(after(5, 0)));
  now = Nanos(37 * kSecond);  // 30 s after 7
  EXPECT_TRUE(limits.out_of_time(after(5, 0)));
  EXPECT_FALSE(limits.out_of_time(after(4, 0)));
  EXPECT_EQ(limits.time_limit_reached(), "train.max_seconds = 30 is reached");
}

TEST(RunLimits, AreNamedAsTheirReaderKnowsThem) {
  TrainConfig train = ten_steps();
  train.max_tokens = Tokens(5000);
  train.max_seconds = 30;
  const RunLimits limits(train, 0, monotonic_now, "");
  EXPECT_EQ(limits.token_limit_reached(after(4, 5000)), "max_tokens = 5000 is reached");
  EXPECT_EQ(limits.time_limit_reached(), "max_seconds = 30 is reached");
}

TEST(RunLimits, EvaluateAtBothEndsAndBetween) {
  const RunLimits limits(ten_steps(), 0);
  const auto due_after = [&](std::int64_t every) {
    std::vector<std::int64_t> due;
    for (std::int64_t steps = 0; steps <= 10; ++steps)
      if (limits.evaluation_due(after(steps, 0), every)) due.push_back(steps);
    return due;
  };
  EXPECT_EQ(due_after(4), (std::vector<std::int64_t>{0, 4, 8, 10}));
  EXPECT_EQ(due_after(0), (std::vector<std::int64_t>{0, 10}));
}

TEST(RunLimits, EvaluateOnceWhereALimitEndsTheRun) {
  const RunLimits limits(ten_steps(), 0);
  RunProgress progress = after(3, 0);
  EXPECT_FALSE(limits.evaluation_due(progress, 4));
  progress.limit = "train.max_tokens = 5000 is reached";
  EXPECT_TRUE(limits.evaluation_due(progress, 4));
  progress.evaluated_steps = 3;
  EXPECT_FALSE(limits.evaluation_due(progress, 4));
}

}  // namespace
}  // namespace slimpack
