// Put-off weight gradients: their part of backward's time, and what they hold until they run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/cost/round_model.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using testing::round_model;
using testing::round_model_of_replicas;
using testing::slice;
using BytesOf = std::vector<Bytes>;
using NanosOf = std::vector<Nanos>;

const StageLayout kTwoStages{{0, 1, 3}};

RecomputingCosts with_weights(Costs cost, const EdgeTime& weight_gradient) {
  cost.kinds.front().weight_gradient = weight_gradient;
  return RecomputingCosts{cost};
}

/// Backward packs of two and three tokens.
PackPlan two_packs(std::int32_t replicas = 1) {
  return {{{{slice(0, 0, 6)}, replicas}, {{slice(1, 0, 1)}, replicas}},
          {{{slice(0, 4, 6)}, replicas}, {{slice(0, 2, 4), slice(1, 0, 1)}, replicas}}};
}

TEST(WeightGradientTimes, CountLayersAndTokensAndNothingElse) {
  const RecomputingCosts cost{with_weights(round_model(), {80, 1.5})};
  const TaskTimes times = task_times(cost, kTwoStages, two_packs());
  // A layer: 80 + 1.5·2 = 83 and 80 + 1.5·3 = 84.5, which rounds up. Two layers: 166 and 169. The
  // embedding and the head do not wait, and slices and prefixes cost weights nothing.
  ASSERT_EQ(times.weight_gradient.size(), 2U);
  EXPECT_EQ(times.weight_gradient[0], (NanosOf{Nanos(83), Nanos(85)}));
  EXPECT_EQ(times.weight_gradient[1], (NanosOf{Nanos(166), Nanos(169)}));
  // The whole backward stays what it was.
  EXPECT_EQ(times.backward,
            task_times(RecomputingCosts{round_model()}, kTwoStages, two_packs()).backward);
}

TEST(WeightGradientTimes, OfAMergedPackAreThoseOfItsShareOfTokens) {
  const RecomputingCosts cost{with_weights(round_model_of_replicas(), {80, 1.5})};
  const auto weights = [&](std::int32_t replicas) {
    return task_times(cost, kTwoStages, two_packs(replicas)).weight_gradient[1];
  };
  // Two layers of 80 + 1.5·2/2 and 80 + 1.5·3/2 (164.5 rounds up), then quarters: 161.5 and 162.25.
  // Exchanges are not in it.
  EXPECT_EQ(weights(2), (NanosOf{Nanos(163), Nanos(165)}));
  EXPECT_EQ(weights(4), (NanosOf{Nanos(162), Nanos(162)}));
}

TEST(WeightGradientTimes, AreDividedByTheSpeedOfEachStage) {
  const RecomputingCosts cost{with_weights(round_model(), {80, 1.5})};
  const std::vector<double> speed = {4, 0.5};
  const TaskTimes times = task_times(cost, kTwoStages, two_packs(), {1, speed});
  // 83/4 = 20.75 and 84.5/4 = 21.125; 166 and 169 doubled.
  EXPECT_EQ(times.weight_gradient[0], (NanosOf{Nanos(21), Nanos(21)}));
  EXPECT_EQ(times.weight_gradient[1], (NanosOf{Nanos(332), Nanos(338)}));
}

TEST(WeightGradientTimes, LeaveInputGradientsSomeTime) {
  RecomputingCosts cost{with_weights(round_model(), {200, 4})};
  cost.kinds.front().backward = {200, 0, 4, 0, 0};
  const StageLayout three{{0, 1, 2, 3}};
  // The middle stage has no edges: its backward, 208 and 212, would be weights altogether.
  TaskTimes times = task_times(cost, three, two_packs());
  EXPECT_EQ(times.backward[1], (NanosOf{Nanos(208), Nanos(212)}));
  EXPECT_EQ(times.weight_gradient[1], (NanosOf{Nanos(207), Nanos(211)}));
  // A backward that takes no time has nothing that can wait.
  cost.kinds.front().backward = {};
  times = task_times(cost, three, two_packs());
  EXPECT_EQ(times.backward[1], (NanosOf{Nanos(0), Nanos(0)}));
  EXPECT_EQ(times.weight_gradient[1], (NanosOf{Nanos(0), Nanos(0)}));
}

TEST(WeightGradientTimes, AreZeroOnAStageWithoutLayers) {
  const RecomputingCosts cost{with_weights(round_model(), {80, 1.5})};
  const TaskTimes times = task_times(cost, {{0, 0, 3}}, two_packs());
  EXPECT_EQ(times.weight_gradient[0], (NanosOf{Nanos(0), Nanos(0)}));
  EXPECT_EQ(times.weight_gradient[1], (NanosOf{Nanos(249), Nanos(254)}));
}

TEST(WeightGradientTimes, OfAModelThatKnowsNoneAreAbsent) {
  EXPECT_TRUE(
      task_times(RecomputingCosts{round_model()}, kTwoStages, two_packs()).weight_gradient.empty());
  // Either term alone is enough.
  for (const EdgeTime& term : {EdgeTime{1, 0}, EdgeTime{0, 1}})
    EXPECT_EQ(task_times(with_weights(round_model(), term), kTwoStages, two_packs())
                  .weight_gradient.size(),
              2U);
}

RC_GTEST_PROP(WeightGradientTimes, AreWhatAModelOfInputGradientsAloneLeavesOut,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const RecomputingCosts cost{
      with_weights(round_model_of_replicas(), {200 * rng.uniform(), 4 * rng.uniform()})};
  Costs input_half = cost;
  input_half.kinds.front().backward.per_pack -= cost.kinds.front().weight_gradient.per_pack;
  input_half.kinds.front().backward.per_token -= cost.kinds.front().weight_gradient.per_token;
  const StepPlan plan = testing::random_step(rng, 2, testing::MergedAt::kAnywhere);
  for (const ReplicaPlan& replica : plan.replicas) {
    const std::vector<double> speed = {0.5 + rng.uniform(), 0.5 + rng.uniform()};
    const TaskTimes both = task_times(cost, kTwoStages, replica.packs, {3, speed});
    const TaskTimes input =
        task_times(RecomputingCosts{input_half}, kTwoStages, replica.packs, {3, speed});
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t p = 0; p < replica.packs.backward.size(); ++p) {
        const std::int64_t whole = both.backward[s][p].count();
        const std::int64_t weights = both.weight_gradient[s][p].count();
        RC_ASSERT(weights >= 0);
        RC_ASSERT(weights < whole);
        // Three roundings: of the whole and of either half.
        RC_ASSERT(std::abs(whole - weights - input.backward[s][p].count()) <= 1);
      }
  }
}

/// The example of docs/row-store.md, two layers on one stage. Elements of a token: hidden 8, q 8,
/// k 4, FFN 16. Every weight [O, I] needs O + I of them: q, k, v (8 + 8) + 8 = 24, output 16, gate
/// and up 32 + 8 = 40, down 24; together 104.
Costs example_cost(Dtype dtype = Dtype::kFp32) {
  Costs cost;
  cost.dtype = dtype;
  cost.shape = testing::row_store_example();
  cost.kinds.front().weight_gradient = {0, 1};
  return cost;
}

/// Ten tokens, backward six and four of them, or twice as many on two replicas.
TaskBytes example_bytes(const Costs& cost, std::int32_t replicas = 1,
                        const StageLayout& layout = {{0, 2}}, RecomputeByLayer recompute = {}) {
  const std::int64_t n = replicas;
  const PackPlan packs{{{{slice(0, 0, 10 * n)}, replicas}},
                       {{{slice(0, 4 * n, 10 * n)}, replicas}, {{slice(0, 0, 4 * n)}, replicas}}};
  return task_bytes(with_recompute(cost, std::move(recompute)), layout, packs, {Tokens(10 * n)});
}

TEST(WeightGradientBytes, HoldBothOperandsOfEveryWeight) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    const TaskBytes bytes = example_bytes(example_cost(dtype));
    const std::int64_t token = 2 * 104 * element_bytes(dtype);
    ASSERT_EQ(bytes.weight_operands.size(), 1U);
    EXPECT_EQ(bytes.weight_operands[0], (BytesOf{Bytes(6 * token), Bytes(4 * token)}));
  }
}

TEST(WeightGradientBytes, CountTheLayersOfEachStage) {
  Costs cost = example_cost();
  cost.shape.set_layers(3);
  const TaskBytes bytes = example_bytes(cost, 1, kTwoStages);
  ASSERT_EQ(bytes.weight_operands.size(), 2U);
  EXPECT_EQ(bytes.weight_operands[0], (BytesOf{Bytes(6 * 416), Bytes(4 * 416)}));
  EXPECT_EQ(bytes.weight_operands[1], (BytesOf{Bytes(6 * 832), Bytes(4 * 832)}));
  // One layer after the other, so its own memory does not grow with them.
  EXPECT_EQ(bytes.weight_transient[0], bytes.weight_transient[1]);
}

TEST(WeightGradientBytes, TakeNoMoreThanTheOperandsThatTheyFreeButForProducts) {
  // fp32 and fp64 add the product in place, and the down projection's operands are free before an
  // input meets its norm's weight.
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kFp64})
    EXPECT_EQ(example_bytes(example_cost(dtype)).weight_transient[0],
              (BytesOf{Bytes(0), Bytes(0)}));
  // bf16 widens operands to 4 bytes a number. Down: 8 + 16 of a token, 96. Gate and up: 32 + 8,
  // 160, and 16 of normalised input, less 32 + 16 of the down projection's operands.
  const Costs bf16 = example_cost(Dtype::kBf16);
  EXPECT_EQ(example_bytes(bf16).weight_transient[0], (BytesOf{Bytes(6 * 128), Bytes(4 * 128)}));
  // With a small MLP gate and up need most too, 8 + 8 numbers: 64 + 16 − (8 + 16); down 48; q, k
  // and v 96 + 16, less 8 + 16, 16 + 16 and 16 + 16 of the others' operands.
  Costs small_mlp = bf16;
  small_mlp.shape.kinds[0].dense_width = 4;
  EXPECT_EQ(example_bytes(small_mlp).weight_transient[0], (BytesOf{Bytes(6 * 56), Bytes(4 * 56)}));
  // A pack of many tokens widens 256 at a time, and no product needs more than the first. Gate and
  // up have 256 · 160 − 1,000 · 32.
  const PackPlan long_pack{{{{slice(0, 0, 1000)}}}, {{{slice(0, 0, 1000)}}}};
  EXPECT_EQ(
      task_bytes(RecomputingCosts{bf16}, {{0, 2}}, long_pack, {Tokens(1000)}).weight_transient[0],
      BytesOf{Bytes(256 * 96)});
}

TEST(WeightGradientBytes, FillLayerByLayerWhileInputGradientsRun) {
  // Bytes of a token: hidden 32, q 32, k 16, FFN 64, log-sum-exp 8; operands 416. Six tokens of one
  // forward pack of ten, on the second of two layers: those of the first layer 6 · 416, and dK and
  // dV of both 2 · 320. In attention: of this layer's operands silu(gate) ⊙ up, the gradient of
  // gate and up, the normalised input and a copy of the output, 64 + 128 + 32 + 32, with dy,
  // dmiddle, dout and dqkv 32 + 32 + 32 + 64, and of the kernel dq, dk, dv and lse 32 + 32 + 8,
  // those of the prefix 6 · 32 + 4 · 32, folded copies of dO, Q, O and lse 6 · 104, two tiles of
  // 12 · 4 scores.
  const int second = 6 * 416 + 640 + 6 * (256 + 160 + 72 + 32 + 104) + 4 * 32 + 2 * 48 * 4;
  // The other four tokens peak in the first layer: all ten rows are freed with it. The head has
  // freed their inputs, 320; a block of four by four scores twice.
  const int first = 4 * (256 + 160 + 72) + 2 * 16 * 4 - 320;
  EXPECT_EQ(example_bytes(example_cost()).input_transient[0],
            (BytesOf{Bytes(second), Bytes(first)}));
}

TEST(WeightGradientBytes, AreNotCopiedWhereTheyAreAlone) {
  // All rows of a forward pack in one backward pack: attention's output stays, and the row goes.
  // 10 · (224 + 160 + 72), tiles of 10 · 10 scores twice, less the inputs of the head.
  const MicroPack whole{{slice(0, 0, 10)}};
  EXPECT_EQ(task_bytes(RecomputingCosts{example_cost()}, {{0, 1}}, {{whole}, {whole}}, {Tokens(10)})
                .input_transient[0],
            BytesOf{Bytes(10 * 456 + 800 - 320)});
}

TEST(WeightGradientBytes, OfATensorParallelRankAreItsHeadsAndItsTokens) {
  Costs cost = example_cost();
  cost.tp = 2;
  // Bytes of a token: hidden states 4·16, half of the tokens; attention's output 16, dqkv 16 + 2·16
  // as the one KV head is on both ranks; 3·32 of the MLP: 224.
  const TaskBytes bytes = example_bytes(cost);
  EXPECT_EQ(bytes.weight_operands[0], (BytesOf{Bytes(6 * 448), Bytes(4 * 448)}));
  // The states of either side of a map are gathered: dy, 32 a token, before anything is freed; 8
  // for the number of its row.
  EXPECT_EQ(bytes.weight_transient[0], (BytesOf{Bytes(6 * 40), Bytes(4 * 40)}));
}

TEST(WeightGradientBytes, OfAMergedPackAreThoseOfItsShare) {
  const TaskBytes alone = example_bytes(example_cost());
  const TaskBytes merged = example_bytes(example_cost(), 2);
  EXPECT_EQ(merged.weight_operands, alone.weight_operands);
  EXPECT_EQ(merged.weight_transient, alone.weight_transient);
}

TEST(WeightGradientBytes, AreTheSameWhateverIsComputedAgain) {
  const TaskBytes kept = example_bytes(example_cost());
  for (const Recompute recompute : all_recomputations()) {
    const TaskBytes bytes =
        example_bytes(example_cost(), 1, {{0, 2}}, RecomputeByLayer(2, recompute));
    EXPECT_EQ(bytes.weight_operands, kept.weight_operands) << to_string(recompute);
    EXPECT_EQ(bytes.weight_transient, kept.weight_transient) << to_string(recompute);
  }
}

TEST(WeightGradientBytes, GrowWithTheRowsOfAnotherAccounting) {
  Costs cost = example_cost();
  cost.row_bytes = 100;
  // Our own: 416 of operands to 264 of rows, on two layers 315.15 to 200.
  TaskBytes bytes = example_bytes(cost);
  EXPECT_EQ(bytes.rows[0], BytesOf{Bytes(2000)});
  EXPECT_EQ(bytes.weight_operands[0], (BytesOf{Bytes(6 * 316), Bytes(4 * 316)}));
  EXPECT_EQ(bytes.weight_transient[0], (BytesOf{Bytes(0), Bytes(0)}));
  // One of two tensor-parallel ranks: 224 to 132, which is 339.39 to 200.
  cost.tp = 2;
  EXPECT_EQ(example_bytes(cost).weight_operands[0], (BytesOf{Bytes(6 * 340), Bytes(4 * 340)}));
}

TEST(WeightGradientBytes, OfAModelThatKnowsNoneAreAbsentAndChangeNothingElse) {
  for (const double row : {0.0, 100.0}) {
    Costs cost = example_cost();
    cost.row_bytes = row;
    const TaskBytes split = example_bytes(cost);
    cost.kinds.front().weight_gradient = {};
    const TaskBytes whole = example_bytes(cost);
    EXPECT_TRUE(whole.weight_operands.empty());
    EXPECT_TRUE(whole.input_transient.empty());
    EXPECT_TRUE(whole.weight_transient.empty());
    EXPECT_EQ(whole.rows, split.rows);
    EXPECT_EQ(whole.forward_transient, split.forward_transient);
    EXPECT_EQ(whole.backward_transient, split.backward_transient);
    EXPECT_EQ(whole.backward_input, split.backward_input);
  }
}

}  // namespace
}  // namespace slimpack
