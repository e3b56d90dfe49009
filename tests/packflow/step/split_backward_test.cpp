// Split backwards in whole steps: the gradients are those of whole ones.
#include <gtest/gtest.h>

#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "tests/packflow/step/step_outcome.h"
#include "tests/sim/pass_of.h"
#include "tests/support/list_schedule.h"

namespace slimpack {
namespace {

using testing::least_memory;

using slimpack::testing::engine_options;
using slimpack::testing::expect_same;
using slimpack::testing::packed_step;
using slimpack::testing::pass_of;
using slimpack::testing::random_tokens;
using slimpack::testing::run_once;
using slimpack::testing::sliced_step;
using slimpack::testing::small_shape;
using slimpack::testing::SmallStep;
using slimpack::testing::split_backwards;
using slimpack::testing::split_randomly;
using slimpack::testing::StepOutcome;

const SequenceLengths& lengths() {
  static const SequenceLengths all{Tokens(70), Tokens(1), Tokens(33), Tokens(2), Tokens(9)};
  return all;
}

Decoder with_biases(Decoder shape) {
  shape.kinds[0].qkv_bias = shape.kinds[0].output_bias = shape.kinds[0].mlp_bias = true;
  return shape;
}

std::size_t count(const Schedule& schedule, Pass pass) {
  std::size_t actions = 0;
  for (const auto& stage : schedule.ranks)
    for (const Action& action : stage) actions += action.pass == pass;
  return actions;
}

TEST(SplitBackward, OfEveryMicroPackGivesTheBitsOfWholeOnes) {
  // Weight gradients add up in ascending order, as in whole backwards.
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16})
    for (const bool qk_norm : {false, true})
      for (const std::int32_t pp : {1, 3}) {
        const Decoder shape = with_biases(small_shape(3, qk_norm));
        SmallStep step = sliced_step(shape, dtype, pp, lengths(), 6, Tokens(8));
        const StepOutcome whole = run_once(step);
        split_backwards(step, 0);
        ASSERT_EQ(count(step.schedule, Pass::kBackward), 0u);
        expect_same(whole, run_once(step), 0.0);
      }
}

TEST(SplitBackward, OfPackedSequencesGivesTheBitsOfWholeOnes) {
  // Forward and backward packs are the same: operands stay where they are instead of being copied.
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kBf16}) {
    SmallStep step = packed_step(small_shape(4), dtype, 2, lengths(), Tokens(70));
    const StepOutcome whole = run_once(step);
    split_backwards(step, 0);
    ASSERT_EQ(count(step.schedule, Pass::kBackward), 0u);
    expect_same(whole, run_once(step), 0.0);
  }
}

TEST(SplitBackward, GivesTheSameGradientsWhateverIsComputedAgain) {
  for (const Recompute recompute : testing::recomputations_of_cpu()) {
    SmallStep step = sliced_step(small_shape(4, true), Dtype::kFp64, 2, lengths(), 6, Tokens(8),
                                 RecomputeByLayer(4, recompute));
    const StepOutcome whole = run_once(step);
    split_backwards(step, 0);
    expect_same(whole, run_once(step), 0.0);
  }
}

TEST(SplitBackward, AnywhereAndWheneverChangesNothingButRounding) {
  std::size_t split = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto pp = static_cast<std::int32_t>(1 + rng.below(4));
    Decoder shape = small_shape(4, rng.below(2) == 0);
    if (rng.below(2) == 0) shape = with_biases(shape);
    shape.tie_embeddings = rng.below(2) == 0;
    SmallStep step = rng.below(4) == 0
                         ? packed_step(shape, Dtype::kFp64, pp, lengths(), Tokens(70))
                         : sliced_step(shape, Dtype::kFp64, pp, lengths(),
                                       1 + static_cast<int>(rng.below(12)), Tokens(4));
    const StepOutcome whole = run_once(step);
    split_randomly(step, rng);
    ASSERT_TRUE(check_schedule(step.packs(), step.schedule).empty());
    split += count(step.schedule, Pass::kWeightGradient);
    SCOPED_TRACE(seed);
    expect_same(whole, run_once(step), 1e-12);
  }
  EXPECT_GT(split, 200u);  // half of some ten backwards on two or three stages, forty times
}

TEST(SplitBackward, FromAnyPackOnUnderAnyCapChangesNothingButRounding) {
  std::size_t whole_ones = 0, split = 0;
  for (const std::int32_t pp : {2, 4}) {
    SmallStep step = sliced_step(small_shape(4, true), Dtype::kFp64, pp, lengths(), 9, Tokens(4));
    const StepOutcome whole = run_once(step);
    for (const std::int32_t from : {0, 3, 7})
      for (const double room : {1.0, 1.1, 1.4}) {
        std::vector<Bytes> caps = least_memory(step.packs(), step.bytes());
        for (Bytes& cap : caps) cap = Bytes(std::llround(room * static_cast<double>(cap.count())));
        split_backwards(step, from, caps);
        ASSERT_TRUE(check_schedule(step.packs(), step.schedule).empty());
        whole_ones += count(step.schedule, Pass::kBackward);
        split += count(step.schedule, Pass::kWeightGradient);
        const StepOutcome outcome = run_once(step);
        expect_same(whole, outcome, 1e-12);
        // The head's own scratch is not in the model; nothing else is large.
        for (std::size_t s = 0; s < caps.size(); ++s)
          EXPECT_LE(static_cast<double>(outcome.result.timeline.peak_activation[s].count()),
                    1.02 * static_cast<double>(caps[s].count()))
              << "stage " << s << ", from " << from << ", room " << room;
      }
  }
  EXPECT_GT(whole_ones, 0u);
  EXPECT_GT(split, 0u);
}

TEST(SplitBackward, ActionsAreMeasuredInTheOrderOfTheSchedule) {
  SmallStep step = sliced_step(small_shape(3), Dtype::kFp32, 3, lengths(), 6, Tokens(8));
  split_backwards(step, 2);
  ASSERT_GT(count(step.schedule, Pass::kBackward), 0u);
  ASSERT_GT(count(step.schedule, Pass::kWeightGradient), 0u);
  Schedule measured;
  measured.ranks.resize(step.schedule.ranks.size());
  for (const Span& span : run_once(step).result.timeline.spans)
    if (const auto pass = pass_of(span.kind))
      measured.ranks[static_cast<std::size_t>(span.rank)].push_back(
          {StageId(span.rank), *pass, span.pack});
  EXPECT_EQ(measured, step.schedule);
}

TEST(SplitBackward, WithoutItsWeightGradientsIsABugThatTheStepNames) {
  SmallStep step = sliced_step(small_shape(2), Dtype::kFp32, 2, lengths(), 4, Tokens(8));
  split_backwards(step, 0);
  ASSERT_EQ(step.schedule.ranks[1].back().pass, Pass::kWeightGradient);
  step.schedule.ranks[1].pop_back();
  try {
    static_cast<void>(run_once(step));
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("weight gradients were put off and never run"),
              std::string::npos)
        << e.what();
  }
}

TEST(SplitBackward, OfAStepThatFailsLeavesNoOperandsBehind) {
  SmallStep step = sliced_step(small_shape(2), Dtype::kFp32, 1, lengths(), 4, Tokens(8));
  // All weight gradients at the end, so that everything is put off when the step stops before them.
  auto& actions = step.schedule.ranks[0];
  const auto backwards = actions;
  for (Action& action : actions)
    if (action.pass == Pass::kBackward) action.pass = Pass::kInputGradient;
  const std::size_t before_weights = actions.size();
  for (const Action& action : backwards)
    if (action.pass == Pass::kBackward)
      actions.push_back({action.stage, Pass::kWeightGradient, action.pack});
  std::size_t left = before_weights + 1;
  EngineOptions options = engine_options(step);
  options.hooks.before_action = [&left] {
    if (--left == 0) throw Interrupted("before the weight gradients");
  };
  Engine engine(options);
  Rng rng(11);
  const StepTokens tokens = random_tokens(rng, step.cost.shape, lengths());
  const Bytes before = live_bytes(0);
  EXPECT_THROW(static_cast<void>(engine.run(step.plan, lower(step.plan, {&step.schedule, 1}),
                                            tokens, std::nullopt)),
               Interrupted);
  EXPECT_EQ(live_bytes(0), before);
}

}  // namespace
}  // namespace slimpack
