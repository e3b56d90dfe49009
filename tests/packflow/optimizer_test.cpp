#include "slimpack/packflow/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/packflow/tensors.h"

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

StageParameters two_parameters(double value, double gradient) {
  StageParameters p;
  const auto fill = [&](Parameter& parameter, bool decay) {
    parameter.master = parameter.value = at::full({2, 2}, value, at::kDouble);
    parameter.gradient = at::full({2, 2}, gradient, at::kDouble);
    parameter.first_moment = at::zeros({2, 2}, at::kDouble);
    parameter.second_moment = at::zeros({2, 2}, at::kDouble);
    parameter.decay = decay;
  };
  fill(p.embedding_VH, true);
  fill(p.final_norm_H, false);
  return p;
}

TEST(GradientNorm, AddsSquaresAndLeavesTiedCopiesOut) {
  StageParameters p = two_parameters(1, 3);
  EXPECT_DOUBLE_EQ(squared_gradient_norm(p), 8 * 9.0);
  p.embedding_VH.tied_copy = true;
  EXPECT_DOUBLE_EQ(squared_gradient_norm(p), 4 * 9.0);
  zero_gradients(p);
  EXPECT_EQ(squared_gradient_norm(p), 0);
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
  StageParameters p = two_parameters(3, 4);
  adamw_update(p, config, 0, 0.5);
  EXPECT_NEAR(p.embedding_VH.value[0][0].item<double>(), 3 - 0.3 - 0.4, 1e-12);
  EXPECT_NEAR(p.final_norm_H.value[1][1].item<double>(), 3 - 0.4, 1e-12);
  EXPECT_NEAR(p.embedding_VH.first_moment[0][0].item<double>(), 0.1 * 2, 1e-15);
  EXPECT_NEAR(p.embedding_VH.second_moment[0][0].item<double>(), 0.05 * 4, 1e-15);
}

TEST(AdamW, TheSecondStepFollowsTheMoments) {
  // Gradients 2 then 0: m = 0.9 · 0.2 = 0.18, corrected by 1 − 0.81 = 0.19; v = 0.95 · 0.2 = 0.19,
  // corrected by 1 − 0.9025 = 0.0975. Step: 0.5 · (0.18/0.19) / (√(0.19/0.0975) + 0.5).
  TrainConfig config = schedule(0, 10);
  config.learning_rate = config.min_learning_rate = 0.5;
  config.epsilon = 0.5;
  config.weight_decay = 0;
  StageParameters p = two_parameters(3, 2);
  adamw_update(p, config, 0, 1.0);
  const double after_one = p.embedding_VH.value[0][0].item<double>();
  zero_gradients(p);
  adamw_update(p, config, 1, 1.0);
  const double step = 0.5 * (0.18 / 0.19) / (std::sqrt(0.19 / 0.0975) + 0.5);
  EXPECT_NEAR(p.embedding_VH.value[0][0].item<double>(), after_one - step,
              1e-7);  // fp32 step count
}

TEST(AdamW, RoundsMastersIntoTheValuesOfABf16Run) {
  StageParameters p;
  Parameter& weight = p.embedding_VH;
  weight.master = at::full({1, 1}, 1.0, at::kFloat);
  weight.value = weight.master.to(at::kBFloat16);
  weight.gradient = at::full({1, 1}, 1.0, at::kFloat);
  weight.first_moment = at::zeros({1, 1}, at::kFloat);
  weight.second_moment = at::zeros({1, 1}, at::kFloat);
  TrainConfig config = schedule(0, 1000);
  config.learning_rate = config.min_learning_rate = 0.001;
  // Each step is 0.001, less than half of bf16's spacing below 1 (2^-8 = 0.0039): a run without
  // masters would stay at 1 for ever.
  for (std::int64_t step = 0; step < 5; ++step) adamw_update(p, config, step, 1.0);
  EXPECT_NEAR(weight.master.item<double>(), 0.995, 1e-4);
  EXPECT_EQ(weight.value.item<double>(), weight.master.to(at::kBFloat16).item<double>());
  EXPECT_LT(weight.value.item<double>(), 1.0);
}

}  // namespace
}  // namespace slimpack
