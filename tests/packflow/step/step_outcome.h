// The outcome of a step without an update, and whether two steps have the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "tests/packflow/support/random_run.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack::testing {

struct StepOutcome {
  StepResult result;
  NamedTensors gradients;
};

/// The outcome of the step that `engine` has just run.
inline StepOutcome outcome_of(Engine& engine, StepResult result) {
  return {std::move(result), named_gradients(engine)};
}

/// Runs the step on a new engine, on tokens that depend on nothing but the shape and the lengths.
inline StepOutcome run_once(const SmallStep& step, const EngineOptions& options) {
  Engine engine(options);
  Rng rng(11);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, step.plan.lengths);
  return outcome_of(
      engine, engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt));
}
inline StepOutcome run_once(const SmallStep& step, at::Device device = at::kCPU) {
  EngineOptions options = engine_options(step);
  options.device = device;
  return run_once(step, options);
}
/// Runs the step on a new engine, on the run's own tokens.
inline StepOutcome run_once(const RandomRun& run, Dtype dtype = Dtype::kFp64,
                            at::Device device = at::kCPU) {
  EngineOptions options = run.options(dtype);
  options.device = device;
  Engine engine(options);
  return outcome_of(engine, run.run(engine));
}

/// Whether no gradient differs by more than `bound` of the model's largest: where a token sees
/// itself alone, those of queries and keys are zero in theory.
inline bool same_gradients(const NamedTensors& actual, const NamedTensors& expected, double bound) {
  double largest = 0, error = 0;
  for (const auto& [name, gradient] : expected) {
    largest = std::max(largest, gradient.abs().max().item<double>());
    error = std::max(error, (actual.at(name) - gradient).abs().max().item<double>());
  }
  return error <= bound * largest;
}

/// Loss, norm and every gradient, relative to the largest number of each.
inline void expect_same(const StepOutcome& a, const StepOutcome& b, double bound) {
  EXPECT_NEAR(a.result.loss, b.result.loss, bound * a.result.loss);
  EXPECT_NEAR(a.result.gradient_norm, b.result.gradient_norm, bound * a.result.gradient_norm);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients)
    EXPECT_LE(relative_error(b.gradients.at(name), gradient), bound) << name;
}

}  // namespace slimpack::testing
