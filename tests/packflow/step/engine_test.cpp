#include "slimpack/packflow/step/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/schedule/ticks.h"
#include "tests/packflow/step/step_outcome.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using slimpack::testing::engine_options;
using slimpack::testing::expect_same;
using slimpack::testing::packed_step;
using slimpack::testing::random_tokens;
using slimpack::testing::run_once;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;
using slimpack::testing::StepOutcome;

const SequenceLengths& lengths() {
  static const SequenceLengths all{Tokens(70), Tokens(1), Tokens(33), Tokens(2), Tokens(9)};
  return all;
}

StepTokens tokens_for(const Decoder& shape) {
  Rng rng(11);
  return random_tokens(rng, shape, lengths());
}

TEST(Engine, TheSamePlanAndSeedGiveTheSameBits) {
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16}) {
    const SmallStep step = sliced_step(small_shape(2, true), dtype, 2, lengths(), 6, Tokens(8));
    expect_same(run_once(step), run_once(step), 0.0);
  }
}

TEST(Engine, PlansStagesAndPackingChangeNothingButRounding) {
  for (const bool tied : {false, true}) {
    Decoder shape = small_shape(4, true);
    shape.tie_embeddings = tied;
    const StepOutcome whole = run_once(packed_step(shape, Dtype::kFp64, 1, lengths(), Tokens(115)));
    EXPECT_GT(whole.result.loss, 1.0);
    for (const std::int32_t pp : {1, 2, 4}) {
      expect_same(whole, run_once(sliced_step(shape, Dtype::kFp64, pp, lengths(), 9, Tokens(4))),
                  1e-12);
      expect_same(whole, run_once(packed_step(shape, Dtype::kFp64, pp, lengths(), Tokens(70))),
                  1e-12);
    }
  }
}

TEST(Engine, StartsFromTheLossOfAUniformGuess) {
  // Weights of deviation 0.02 leave the logits near 0: the loss is about ln 61 = 4.11.
  const StepOutcome out =
      run_once(sliced_step(small_shape(2), Dtype::kFp64, 1, lengths(), 4, Tokens(8)));
  EXPECT_NEAR(out.result.loss, std::log(61.0), 0.05);
}

TEST(Engine, WeightsDoNotDependOnTheNumberOfStages) {
  const auto weights = [](std::int32_t pp, std::uint64_t seed) {
    Engine engine(engine_options(
        packed_step(small_shape(4, true), Dtype::kFp32, pp, lengths(), Tokens(70)), seed));
    return named_parameters(engine);
  };
  const NamedTensors one = weights(1, 7), four = weights(4, 7), other = weights(1, 8);
  ASSERT_EQ(one.size(), four.size());
  for (const auto& [name, tensor] : one) EXPECT_TRUE(tensor.equal(four.at(name))) << name;
  EXPECT_FALSE(one.at("lm_head.weight").equal(other.at("lm_head.weight")));
}

TEST(Engine, Bf16TrainingLowersTheLoss) {
  const SmallStep step = sliced_step(small_shape(2), Dtype::kBf16, 2, lengths(), 4, Tokens(8));
  Engine engine(engine_options(step));
  const StepTokens tokens = tokens_for(step.cost.shape);
  TrainConfig config;
  config.learning_rate = config.min_learning_rate = 3e-3;
  config.warmup_steps = 0;
  std::vector<double> losses;
  for (std::int64_t s = 0; s < 6; ++s)
    losses.push_back(engine
                         .run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens,
                              OptimizerUpdate{config, s})
                         .loss);
  for (std::size_t s = 1; s < losses.size(); ++s) EXPECT_LT(losses[s], losses[s - 1]) << s;
  EXPECT_LT(losses.back(), losses.front() - 0.1);
}

TEST(Engine, AStepWithoutAnyTargetHasNoLossAndNoGradient) {
  const SequenceLengths single{Tokens(1), Tokens(1)};
  const SmallStep step = packed_step(small_shape(2), Dtype::kFp32, 2, single, Tokens(8));
  Engine engine(engine_options(step));
  Rng rng(1);
  const StepResult result = engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                       random_tokens(rng, step.cost.shape, single), std::nullopt);
  EXPECT_EQ(result.loss, 0.0);
  EXPECT_EQ(result.gradient_norm, 0.0);
}

TEST(Engine, MeasuresEveryActionOfTheScheduleInItsOrder) {
  const SmallStep step = sliced_step(small_shape(2), Dtype::kFp32, 2, lengths(), 5, Tokens(8));
  const Timeline timeline = run_once(step).result.timeline;
  EXPECT_EQ(timeline.origin, "measured");
  ASSERT_EQ(timeline.ranks, 2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    std::vector<Action> measured;
    Nanos at{0};
    for (const Span& span : timeline.spans) {
      if (span.rank != rank) continue;
      EXPECT_GE(span.start, at);
      EXPECT_GE(span.end, span.start);
      at = span.end;
      if (span.kind == SpanKind::kForward)
        measured.push_back({StageId(rank), Pass::kForward, span.pack});
      if (span.kind == SpanKind::kBackward)
        measured.push_back({StageId(rank), Pass::kBackward, span.pack});
    }
    EXPECT_EQ(measured, step.schedule.ranks[static_cast<std::size_t>(rank)]);
  }
}

struct Stop : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(Engine, ARankThatThrowsEndsTheStepOnAllRanksAndTheEngineLivesOn) {
  const SmallStep step = sliced_step(small_shape(3), Dtype::kFp32, 3, lengths(), 3, Tokens(16));
  std::atomic<int> left = 1 << 20;
  EngineOptions options = engine_options(step);
  options.hooks.before_action = [&left] {
    if (--left == 0) throw Stop("the step's own cause");
  };
  Engine engine(options);
  const StepTokens tokens = tokens_for(step.cost.shape);
  const double loss =
      engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt).loss;
  const int asked = (1 << 20) - left;
  int actions = 0;
  for (const auto& stage : step.schedule.ranks) actions += static_cast<int>(stage.size());
  EXPECT_EQ(asked, actions);
  for (int n = 1; n <= actions; ++n) {
    left = n;
    EXPECT_THROW(static_cast<void>(engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                              tokens, std::nullopt)),
                 Stop)
        << n;
  }
  left = 1 << 20;
  EXPECT_EQ(engine.run(step.plan, lower(step.plan, {&step.schedule, 1}), tokens, std::nullopt).loss,
            loss);
}

TEST(Engine, StopsOnRequestBeforeAnyActionOrLayer) {
  constexpr int kLayers = 3;
  // All documents in one MicroPack of one stage: the step is a forward and a backward action.
  const SmallStep step = packed_step(small_shape(kLayers), Dtype::kFp32, 1, lengths(), Tokens(115));
  ASSERT_EQ(step.schedule.ranks[0].size(), 2U);
  int asked = 0, last = 0;
  EngineOptions options = engine_options(step);
  options.should_stop = [&] { return ++asked == last; };
  Engine engine(options);
  const auto run = [&] {
    static_cast<void>(engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                 tokens_for(step.cost.shape), std::nullopt));
  };
  run();
  const int all = asked;
  EXPECT_EQ(all, 2 * (1 + kLayers));
  const Bytes before = live_bytes(0);
  for (last = 1; last <= all; ++last) {
    asked = 0;
    EXPECT_THROW(run(), Interrupted) << last;
    EXPECT_EQ(asked, last);
    EXPECT_EQ(live_bytes(0), before) << last;
  }
}

TEST(Engine, FreesEveryActivationOfAStepThatFailed) {
  const SmallStep step = sliced_step(small_shape(2), Dtype::kFp32, 2, lengths(), 4, Tokens(8));
  std::atomic<int> left = 1 << 20;
  EngineOptions options = engine_options(step);
  options.should_stop = [&left] { return --left <= 0; };
  Engine engine(options);
  const StepTokens tokens = tokens_for(step.cost.shape);
  const Bytes before[] = {live_bytes(0), live_bytes(1)};
  left = 7;
  EXPECT_THROW(static_cast<void>(engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                            tokens, std::nullopt)),
               Interrupted);
  EXPECT_EQ(live_bytes(0), before[0]);
  EXPECT_EQ(live_bytes(1), before[1]);
}

TEST(Engine, RefusesToExchangeAttentionWhereRanksAreNotConnected) {
  SmallStep step = sliced_step(small_shape(2), Dtype::kFp32, 2, {Tokens(64)}, 4, Tokens(8));
  const auto exchanges = context_exchanges(step.plan, {step.schedule});
  ASSERT_FALSE(exchanges.front().empty());
  step.schedule.exchanges = exchanges.front();
  expect_invalid_input([&] { static_cast<void>(run_once(step)); },
                       {"exchanges attention", "parallel.exchange_context is false"});
}

TEST(StepTokens, WeightsOfTargetsAreFiniteAndAboveZero) {
  const auto weighted = [](double weight) {
    const SequenceTokens sequence{{0, 1, 2}, {0, 1, 1}, {7, weight, 0.5}};
    return make_step_tokens(std::vector{sequence}, 5);
  };
  EXPECT_EQ(weighted(2).weight, 2.5);  // the first token is no target
  for (const double wrong : {0.0, -1.0, std::nan(""), HUGE_VAL})
    expect_invalid_input([&] { static_cast<void>(weighted(wrong)); }, {"the weight of token 1 is"});
}

TEST(StepTokens, CountTheTargetsAndRefuseUnknownTokens) {
  EXPECT_EQ(make_step_tokens({{0, 1, 2}, {3}, {}, {4, 4}}, 5).targets, 3);
  expect_invalid_input(
      [] {
        static_cast<void>(make_step_tokens({{0, 5}}, 5));
      },
      {"token 5", "vocabulary of 5"});
  expect_invalid_input([] { static_cast<void>(make_step_tokens({{-1}}, 5)); }, {"token -1"});
}

}  // namespace
}  // namespace slimpack
