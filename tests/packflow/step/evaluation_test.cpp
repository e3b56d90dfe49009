// The forward passes alone: the loss of a step, and nothing left behind.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/step/engine.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/random_run.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/expect_holds.h"

namespace slimpack {
namespace {

using testing::random_run;
using testing::random_tokens;
using testing::RandomRun;
using testing::sliced_step;
using testing::small_shape;
using testing::SmallStep;

double evaluate(Engine& engine, const RandomRun& run, const StepTokens& tokens) {
  return engine.evaluate(run.plan, lower(run.plan, run.schedules), tokens);
}

void require_same(const NamedTensors& before, const NamedTensors& after) {
  RC_ASSERT(before.size() == after.size());
  for (const auto& [name, tensor] : before) RC_ASSERT(tensor.equal(after.at(name)));
}

TEST(Evaluation, FindsTheLossOfAStepOnAnyGridAndDevice) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun run = random_run(rng);
        Engine engine(run.options(Dtype::kFp64));
        const double step = run.run(engine).loss * static_cast<double>(run.tokens.targets);
        const double alone = evaluate(engine, run, run.tokens);
        RC_ASSERT(std::abs(alone - step) <= 1e-12 * step);
        RC_ASSERT(evaluate(engine, run, run.tokens) == alone);
        EngineOptions there = run.options(Dtype::kFp64);
        there.device = testing::kPretended;
        Engine on_device(there);
        RC_ASSERT(std::abs(evaluate(on_device, run, run.tokens) - step) <= 1e-12 * step);
      },
      0.1);
}

TEST(Evaluation, LeavesGradientsWeightsAndMemoryAsTheyWere) {
  testing::expect_holds(
      [](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun run = random_run(rng);
        const StepTokens held_out = random_tokens(rng, run.shape, run.plan.lengths);
        Engine engine(run.options(Dtype::kBf16));
        static_cast<void>(run.run(engine));
        const NamedTensors gradients = named_gradients(engine), weights = named_parameters(engine);
        std::vector<Bytes> live;
        for (const std::int32_t rank : engine.ranks()) live.push_back(live_bytes(rank));
        const double loss = evaluate(engine, run, held_out);
        for (const std::int32_t rank : engine.ranks())
          RC_ASSERT(live_bytes(rank) == live[static_cast<std::size_t>(rank)]);
        require_same(gradients, named_gradients(engine));
        require_same(weights, named_parameters(engine));

        // An optimizer step that follows has the bits of one without an evaluation before it.
        Engine other(run.options(Dtype::kBf16));
        const TrainConfig config;
        for (Engine* each : {&engine, &other})
          static_cast<void>(run.run(*each, OptimizerUpdate{config, 0}));
        require_same(named_parameters(other), named_parameters(engine));
        RC_ASSERT(loss >= 0);
      },
      0.1);
}

TEST(Evaluation, HoldsMuchLessThanAStep) {
  const SequenceLengths lengths{Tokens(700), Tokens(60), Tokens(300), Tokens(40)};
  const SmallStep step = sliced_step(small_shape(8), Dtype::kFp32, 2, lengths, 8, Tokens(8));
  Engine engine(testing::engine_options(step));
  Rng rng(1);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, lengths);
  const auto highest = [&](const auto& run) {
    const Bytes resident[] = {live_bytes(0), live_bytes(1)};
    run();
    return std::array{peak_bytes(0) - resident[0], peak_bytes(1) - resident[1]};
  };
  const auto trained = highest([&] {
    static_cast<void>(
        engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt));
  });
  const auto evaluated = highest([&] {
    static_cast<void>(engine.evaluate(step.plan, lower(step.plan, {&step.schedule, 1}), tokens));
  });
  // A step keeps about nine hidden widths of every row in each of four layers, beside K and V of
  // two thirds of one; a MicroPack alone has an eighth of the rows.
  for (const std::size_t rank : {0, 1}) EXPECT_LT(3 * evaluated[rank], trained[rank]);
}

TEST(Evaluation, ThatARankEndsLeavesTheEngineSound) {
  const SequenceLengths lengths{Tokens(70), Tokens(1), Tokens(33)};
  const SmallStep step = sliced_step(small_shape(3), Dtype::kFp32, 3, lengths, 3, Tokens(16));
  std::atomic<int> left = 1 << 20;
  EngineOptions options = testing::engine_options(step);
  options.hooks.before_action = [&left] {
    if (--left == 0) throw std::out_of_range("the cause");
  };
  Engine engine(options);
  Rng rng(1);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, lengths);
  const auto evaluate = [&] {
    return engine.evaluate(step.plan, lower(step.plan, {&step.schedule, 1}), tokens);
  };
  const double loss = evaluate();
  const int actions = (1 << 20) - left;
  EXPECT_EQ(actions, 3 * static_cast<int>(step.packs().forward.size()));  // forward ones alone
  for (int n = 1; n <= actions; ++n) {
    left = n;
    EXPECT_THROW(static_cast<void>(evaluate()), std::out_of_range) << n;
    left = 1 << 20;
    EXPECT_EQ(evaluate(), loss) << n;
  }
}

}  // namespace
}  // namespace slimpack
