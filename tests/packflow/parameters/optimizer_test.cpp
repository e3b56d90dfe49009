#include "slimpack/packflow/parameters/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

TrainConfig schedule(std::int64_t warmup, std::int64_t steps) {
  TrainConfig config;
  config.learning_rate = 1.0;
  config.min_learning_rate = 0.1;
  config.warmup_steps = warmup;
  config.steps = steps;
  return config;
}

TEST(LearningRate, RisesToThePeakAndFallsToTheMinimum) {
  const TrainConfig config = schedule(10, 111);
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.1);  // 1/10 of the peak
  EXPECT_DOUBLE_EQ(learning_rate(config, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), 1.0);    // end of the warm-up
  EXPECT_DOUBLE_EQ(learning_rate(config, 10), 1.0);   // the cosine begins at the peak
  EXPECT_DOUBLE_EQ(learning_rate(config, 60), 0.55);  // half of its 100 steps: halfway down
  EXPECT_DOUBLE_EQ(learning_rate(config, 110), 0.1);  // the last step
}

TEST(LearningRate, IsDefinedAtItsCorners) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(0, 100), 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(0, 1), 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(5, 5), 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(20, 10), 9), 0.5);  // a run shorter than its warm-up
  EXPECT_DOUBLE_EQ(learning_rate(schedule(1, 3), 1000), 0.1);
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  const TrainConfig config = schedule(3, 40);
  for (std::int64_t step = 3; step < 60; ++step)
    EXPECT_LE(learning_rate(config, step), learning_rate(config, step - 1)) << step;
}

TEST(ClipFactor, BringsTheNormToTheLimitAndLeavesSmallerOnesAlone) {
  EXPECT_NEAR(clip_factor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);  // no clipping
}

TEST(UsableNorm, LeavesRoomForItsSquare) {
  EXPECT_TRUE(usable_norm(1.8e19, at::kFloat));  // 3.24e38 of at most 3.40e38
  EXPECT_FALSE(usable_norm(1.9e19, at::kFloat));
  EXPECT_TRUE(usable_norm(1.9e19, at::kDouble));
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e200})
    EXPECT_FALSE(usable_norm(bad, at::kDouble)) << bad;
}

/// A bucket with all values and gradients alike, owned by `replica` of `replicas`.
ParameterBucket bucket_of(std::int64_t size, double value, double gradient, bool decay,
                          std::int32_t replicas = 1, std::int32_t replica = 0) {
  const Shard shard(size, replicas, replica);
  ParameterBucket bucket{at::full({size}, value, at::kDouble),
                         at::full({size}, gradient, at::kDouble),
                         {{0, size, decay, true}},
                         shard,
                         {},
                         at::zeros({shard.size()}, at::kDouble),
                         at::zeros({shard.size()}, at::kDouble)};
  bucket.masters_S = shard.of(bucket.values_N);
  return bucket;
}

/// The first is decayed, the second not.
StageParameters two_buckets(double value, double gradient, std::int32_t replicas = 1,
                            std::int32_t replica = 0) {
  StageParameters p;
  for (const bool decay : {true, false})
    p.buckets.push_back(bucket_of(4, value, gradient, decay, replicas, replica));
  return p;
}

std::span<StageParameters> one(StageParameters& p) {
  return {&p, 1};
}

double value_in(const StageParameters& p, std::size_t bucket, std::int64_t at) {
  return p.buckets[bucket].values_N[at].item<double>();
}

TEST(GradientNorm, AddsSquaresAndLeavesTiedCopiesOut) {
  StageParameters p = two_buckets(1, 3);
  EXPECT_DOUBLE_EQ(squared_gradient_norm(one(p)), 8 * 9.0);
  p.buckets[0].stretches[0].counted = false;
  EXPECT_DOUBLE_EQ(squared_gradient_norm(one(p)), 4 * 9.0);
  zero_gradients(one(p));
  EXPECT_EQ(squared_gradient_norm(one(p)), 0);
}

TEST(GradientNorm, OfAllReplicasTogetherIsThatOfOne) {
  // 8 elements of square 9, three replicas that own 1 + 1 + 2 of each bucket's 4.
  double sum = 0;
  for (std::int32_t r = 0; r < 3; ++r) {
    StageParameters p = two_buckets(1, 3, 3, r);
    sum += squared_gradient_norm(one(p));
  }
  EXPECT_DOUBLE_EQ(sum, 8 * 9.0);
}

TEST(AdamW, TheFirstStepMovesByTheLearningRateAgainstTheGradientsSign) {
  // m = 0.1 g, v = 0.05 g² and their corrections 1 − 0.9, 1 − 0.95 give g and g²: the step is
  // lr · g / (|g| + ε). With gradient 4 · 0.5 = 2, lr 0.5, ε 0.5: 0.5 · 2 / 2.5 = 0.4. The decayed
  // one loses lr · 0.2 · 3 = 0.3 first.
  TrainConfig config = schedule(0, 10);
  config.learning_rate = config.min_learning_rate = 0.5;
  config.epsilon = 0.5;
  config.weight_decay = 0.2;
  config.beta1 = 0.9;
  config.beta2 = 0.95;
  StageParameters p = two_buckets(3, 4);
  adamw_update(one(p), config, 0, 0.5);
  EXPECT_NEAR(value_in(p, 0, 0), 3 - 0.3 - 0.4, 1e-12);
  EXPECT_NEAR(value_in(p, 1, 3), 3 - 0.4, 1e-12);
  EXPECT_NEAR(p.buckets[0].first_moments_S[0].item<double>(), 0.1 * 2, 1e-15);
  EXPECT_NEAR(p.buckets[0].second_moments_S[0].item<double>(), 0.05 * 4, 1e-15);
}

TEST(AdamW, TheSecondStepFollowsTheMoments) {
  // Gradients 2 then 0: m = 0.9 · 0.2 = 0.18, corrected by 1 − 0.81 = 0.19; v = 0.95 · 0.2 = 0.19,
  // corrected by 1 − 0.9025 = 0.0975. Step: 0.5 · (0.18/0.19) / (√(0.19/0.0975) + 0.5).
  TrainConfig config = schedule(0, 10);
  config.learning_rate = config.min_learning_rate = 0.5;
  config.epsilon = 0.5;
  config.weight_decay = 0;
  StageParameters p = two_buckets(3, 2);
  adamw_update(one(p), config, 0, 1.0);
  const double after_one = value_in(p, 0, 0);
  zero_gradients(one(p));
  adamw_update(one(p), config, 1, 1.0);
  const double step = 0.5 * (0.18 / 0.19) / (std::sqrt(0.19 / 0.0975) + 0.5);
  EXPECT_NEAR(value_in(p, 0, 0), after_one - step,
              1e-7);  // fp32 step count
}

TEST(AdamW, UpdatesTheOwnShardAlone) {
  // The second of two replicas owns the last two of 4 elements.
  TrainConfig config = schedule(0, 10);
  StageParameters p = two_buckets(3, 4, 2, 1);
  adamw_update(one(p), config, 0, 1.0);
  for (const std::size_t bucket : {0, 1})
    for (const std::int64_t at : {0, 1, 2, 3})
      EXPECT_EQ(value_in(p, bucket, at) == 3, at < 2) << bucket << " " << at;
}

TEST(AdamW, RoundsMastersIntoTheValuesOfABf16Run) {
  StageParameters p;
  ParameterBucket& bucket = p.buckets.emplace_back(bucket_of(1, 1, 1, false));
  bucket.masters_S = at::full({1}, 1.0, at::kFloat);
  bucket.values_N = bucket.masters_S.to(at::kBFloat16);
  bucket.gradients_N = at::full({1}, 1.0, at::kFloat);
  bucket.first_moments_S = at::zeros({1}, at::kFloat);
  bucket.second_moments_S = at::zeros({1}, at::kFloat);
  TrainConfig config = schedule(0, 1000);
  config.learning_rate = config.min_learning_rate = 0.001;
  // Each step is 0.001, less than half of bf16's spacing below 1 (2^-8 = 0.0039): a run without
  // masters would stay at 1 for ever.
  for (std::int64_t step = 0; step < 5; ++step) adamw_update(one(p), config, step, 1.0);
  const double master = bucket.masters_S.item<double>();
  EXPECT_NEAR(master, 0.995, 1e-4);
  EXPECT_EQ(value_in(p, 0, 0), bucket.masters_S.to(at::kBFloat16).item<double>());
  EXPECT_LT(value_in(p, 0, 0), 1.0);
}

TEST(FiniteValues, AreThoseOfTheOwnShardInEveryType) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const double bad :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()})
      for (const std::int64_t at : {0, 1, 2, 3}) {
        // The second of two replicas owns the last two of 4 elements.
        StageParameters p = two_buckets(3, 4, 2, 1);
        for (ParameterBucket& bucket : p.buckets) bucket.values_N = bucket.values_N.to(type);
        EXPECT_TRUE(finite_values(one(p)).item<bool>());
        p.buckets[1].values_N[at] = bad;
        EXPECT_EQ(finite_values(one(p)).item<bool>(), at < 2) << type << " " << bad << " " << at;
      }
  // Seven replicas share four elements: some own none.
  StageParameters nothing = two_buckets(3, 4, 7, 0);
  EXPECT_TRUE(finite_values(one(nothing)).item<bool>());
}

TEST(GradientNorm, OfManyBucketsLetsTheHostWaitOnce) {
  StageParameters p = two_buckets(1.0, 3.0);
  for (ParameterBucket& bucket : p.buckets)
    bucket.gradients_N = bucket.gradients_N.to(testing::kPretended);
  const std::int64_t waits = testing::pretended_calls_of_thread().waits;
  EXPECT_DOUBLE_EQ(squared_gradient_norm(one(p)), 72.0);  // eight times 3²
  EXPECT_EQ(testing::pretended_calls_of_thread().waits, waits + 1);
}

}  // namespace
}  // namespace slimpack
