#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/bound_stages.h"
#include "slimpack/cost/recomputed_cost.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::round_model_of_replicas;
using testing::slice;
using R = Recompute;

// Matrix products of a layer of the model, in multiply-adds a token, with h = 20: q 20·24 = 480, k
// and v 20·8 = 160 each, output 480, gate and up 2·20·28 = 1120, down 560; together 2960. Its q and
// k are normalised.

TEST(BackwardTime, IsThatOfTheModelWhereOnlyElementwiseWorkIsDoneAgain) {
  const Costs cost = round_model_of_replicas();
  EXPECT_EQ(backward_time(cost, Recompute::kElementwise), cost.kinds.front().backward);
}

TEST(BackwardTime, WithoutAnythingDoneAgainSavesTheElementwiseWork) {
  Costs cost = round_model_of_replicas();
  EXPECT_EQ(backward_time(cost, Recompute::kNothing),
            cost.kinds.front().backward);  // not known: nothing saved
  cost.kinds.front().elementwise = {30, 0.5};
  EXPECT_EQ(backward_time(cost, Recompute::kNothing), (PackCost{170, 20, 3.5, 2, 6}));
}

TEST(BackwardTime, OfAttentionHasItsQueriesAndItself) {
  // Backward {200, 20, 4, 2, 6} and forward {100, 10, 2, 1, 3}: half the overhead, q of the linear
  // time, all of attention.
  Costs cost = round_model_of_replicas();
  cost.shape.kinds[0].qk_norm = QkNorm::kNone;
  EXPECT_EQ(backward_time(cost, Recompute::kAttention),
            (PackCost{250, 30, 4 + 480.0 / 2960 * 2, 3, 9}));
}

TEST(BackwardTime, OfAttentionWithNormalisedKeysHasTheirProjectionToo) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kAttention),
            (PackCost{250, 30, 4 + 640.0 / 2960 * 2, 3, 9}));
}

TEST(BackwardTime, OfTheMlpGoesUpToItsDownProjection) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kMlp),
            (PackCost{250, 20, 4 + 1120.0 / 2960 * 2, 2, 6}));
}

TEST(BackwardTime, OfEverythingNeedsNeitherValuesNorTheDownProjection) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kFull),
            (PackCost{300, 30, 4 + 2240.0 / 2960 * 2, 3, 9}));
}

TEST(BackwardTime, TakesProductsAsMeasuredAndAttentionAsInForward) {
  // Forward {100, 10, 2, 1, 3}: where attention runs again, all but the first and the third term.
  Costs cost = round_model_of_replicas();
  cost.kinds.front().forward.per_missing_row = 10;
  cost.kinds.front().again = {{1, 0.25}, {2, 0.5}, {3, 0.75}};
  const auto expect = [&](Recompute recompute, PackCost expected, double products) {
    expected.per_missing_row = products / 2960 * 10;  // of few rows, by their share
    EXPECT_EQ(backward_time(cost, recompute), expected) << to_string(recompute);
  };
  expect(Recompute::kAttention, {201, 30, 4.25, 3, 9}, 640);
  expect(Recompute::kMlp, {202, 20, 4.5, 2, 6}, 1120);
  expect(Recompute::kFull, {203, 30, 4.75, 3, 9}, 2240);
  EXPECT_EQ(backward_time(cost, Recompute::kElementwise), cost.kinds.front().backward);
}

/// Two stages of one and two layers, of a model of three.
const StageLayout kTwoStages{{0, 1, 3}};

TEST(WithRecompute, AStageTakesTheSumOfItsLayers) {
  const Costs plain = round_model_of_replicas();
  ASSERT_EQ(plain.shape.num_layers(), 3);
  const RecomputingCosts mixed =
      with_recompute(plain, {Recompute::kFull, Recompute::kAttention, Recompute::kElementwise});
  const Slice s = slice(0, 3, 10);
  const auto alone = [&](Recompute recompute, StageId stage) {
    return stage_cost(with_recompute(plain, recompute), kTwoStages, stage, Pass::kBackward)(s);
  };
  const StageId first(std::int32_t{0});
  const StageId last(std::int32_t{1});
  EXPECT_DOUBLE_EQ(stage_cost(mixed, kTwoStages, first, Pass::kBackward)(s),
                   alone(Recompute::kFull, first));
  EXPECT_DOUBLE_EQ(stage_cost(mixed, kTwoStages, last, Pass::kBackward)(s),
                   (alone(Recompute::kAttention, last) + alone(Recompute::kElementwise, last)) / 2);
  EXPECT_EQ(stage_cost(mixed, kTwoStages, last, Pass::kForward),
            stage_cost(RecomputingCosts{plain}, kTwoStages, last, Pass::kForward));
  // Overheads: 250 + 200 of the layers, 4,000 of the head; 300 of the full layer, 2,000 of the
  // embedding.
  EXPECT_EQ(stage_cost(mixed, kTwoStages, last, Pass::kBackward).per_pack, 4450);
  EXPECT_EQ(stage_cost(mixed, kTwoStages, first, Pass::kBackward).per_pack, 2300);
}

TEST(WithRecompute, AttentionOfAMergedPackIsExchangedAgainInTheLayersThatRunItAgain) {
  const Costs plain = round_model_of_replicas();
  const StageId last(std::int32_t{1});
  const auto overhead = [&](const RecomputeByLayer& recompute) {
    return stage_cost(with_recompute(plain, recompute), kTwoStages, last, Pass::kBackward, 2)
        .per_pack;
  };
  // Merging two replicas adds 30 ns in forward and 60 ns in backward to a layer.
  EXPECT_EQ(overhead({}), 4000 + 2 * 200 + 2 * 60);
  EXPECT_EQ(overhead({R::kFull, R::kMlp, R::kElementwise}), 4000 + 250 + 200 + 2 * 60);
  EXPECT_EQ(overhead({R::kMlp, R::kAttention, R::kElementwise}), 4000 + 250 + 200 + 2 * 60 + 30);
  EXPECT_EQ(overhead({R::kMlp, R::kAttention, R::kFull}), 4000 + 250 + 300 + 2 * 60 + 2 * 30);
  // Per token of the pack, 0.5 forward and 1.5 backward; the layers' own time is shared.
  const RecomputingCosts cost = with_recompute(plain, {R::kMlp, R::kAttention, R::kElementwise});
  EXPECT_DOUBLE_EQ(stage_cost(cost, kTwoStages, last, Pass::kBackward, 2).per_token,
                   (2 * 4 + 640.0 / 2960 * 2 + 11) / 2 + 2 * 1.5 + 0.5);
}

// Bytes of a token's row in fp32: 2 · 4·20 of hidden states, 2 · 4·24 of q and out, 4·8 of k, 4·6
// of log-sum-exp, 2 · 4·28 of gate and up: 632. At 1/256 ns a byte it travels for 2.46875 ns, at
// 1/128 for 4.9375; a layer takes a token 2 ns forward and 4 backward.
/// The time of a token on a stage, overheads and attention left out.
double token_time(const RecomputingCosts& cost, std::int32_t stage, Pass pass) {
  return stage_cost(cost, kTwoStages, StageId(stage), pass).per_token;
}

TEST(Offload, IsKnownWithTheTimeToTheHost) {
  Costs cost = round_model_of_replicas();
  EXPECT_EQ(abilities(cost).recomputations,
            (std::vector<R>{R::kNothing, R::kElementwise, R::kAttention, R::kMlp, R::kFull}));
  cost.host.per_byte = 1;
  EXPECT_TRUE(std::ranges::equal(abilities(cost).recomputations, all_recomputations()));
}

TEST(Offload, OfALayerBeforeAnotherTakesWhatThatDoesNotHide) {
  Costs cost = round_model_of_replicas();
  cost.host.per_byte = 1.0 / 256;
  const auto offloading = [&] { return with_recompute(cost, {R::kMlp, R::kOffload, R::kNothing}); };
  // Two layers; backward with the head's 11.
  EXPECT_EQ(token_time(offloading(), 1, Pass::kForward), 2 * 2 + 0.46875);
  EXPECT_EQ(token_time(offloading(), 1, Pass::kBackward), 2 * 4 + 11);
  cost.host.per_byte = 1.0 / 128;
  EXPECT_EQ(token_time(offloading(), 1, Pass::kForward), 2 * 2 + 2.9375);
  EXPECT_EQ(token_time(offloading(), 1, Pass::kBackward), 2 * 4 + 0.9375 + 11);
  EXPECT_EQ(backward_time(cost, R::kOffload).per_pack, cost.kinds.front().backward.per_pack);
}

TEST(Offload, OfAStagesLastLayerIsHiddenByTheHeadAlone) {
  Costs cost = round_model_of_replicas();
  cost.host.per_byte = 1.0 / 128;
  const RecomputingCosts everywhere = with_recompute(cost, R::kOffload);
  // One layer: its rows leave when it is done, and come before it begins; the embedding's 5 and 7.
  EXPECT_EQ(token_time(everywhere, 0, Pass::kForward), 2 + 4.9375 + 5);
  EXPECT_EQ(token_time(everywhere, 0, Pass::kBackward), 4 + 4.9375 + 7);
  // Two: the first one's leave while the last one runs, whose come while the head does.
  EXPECT_EQ(token_time(everywhere, 1, Pass::kForward), 2 * 2 + 2.9375 + 4.9375);
  cost.ends.head_backward.per_token = 3;
  EXPECT_EQ(token_time(with_recompute(cost, R::kOffload), 1, Pass::kBackward),
            2 * 4 + 2 * 0.9375 + (4 - 3) + 3);
  // Each of two replicas that run a pack together moves half of the rows. The exchange takes 0.5.
  EXPECT_EQ(
      stage_cost(everywhere, kTwoStages, StageId(std::int32_t{0}), Pass::kForward, 2).per_token,
      (2 + 4.9375 + 5) / 2 + 0.5);
}

TEST(Offload, OfAnotherAccountingMovesItsRows) {
  Costs cost = round_model_of_replicas();
  cost.host.per_byte = 0.5;
  cost.row_bytes = 6;
  EXPECT_EQ(exposed_transfer(cost, Pass::kForward), 1);
  EXPECT_EQ(exposed_transfer(cost, Pass::kBackward), 0);
}

TEST(WithRecompute, EdgesLinksAndWeightGradientsStay) {
  Costs plain = round_model_of_replicas();
  plain.kinds.front().weight_gradient = {80, 1.5};
  const PackPlan packs{{{{slice(0, 0, 9)}}}, {{{slice(0, 0, 9)}}}};
  const TaskTimes before = task_times(RecomputingCosts{plain}, kTwoStages, packs);
  for (const Recompute recompute : abilities(plain).recomputations) {
    const TaskTimes after = task_times(with_recompute(plain, recompute), kTwoStages, packs);
    EXPECT_EQ(after.forward, before.forward);
    EXPECT_EQ(after.weight_gradient, before.weight_gradient);
    EXPECT_EQ(after.forward_transfer, before.forward_transfer);
    EXPECT_EQ(after.step_end, before.step_end);
  }
}

TEST(StageTable, TakesAPolicyForEveryLayerOrNone) {
  const Costs cost = round_model_of_replicas();
  EXPECT_THROW((void)stage_table(cost, kTwoStages, {Recompute::kMlp}), InternalError);
  EXPECT_EQ(stage_table(cost, kTwoStages, {}), stage_table(cost, kTwoStages));
}

RC_GTEST_PROP(LayersByRecompute, CountTheLayersOfEveryStage, (std::uint64_t seed)) {
  Rng rng(seed);
  const Costs plain = round_model_of_replicas();
  RecomputeByLayer recompute;
  for (std::int64_t l = 0; l < plain.shape.num_layers(); ++l)
    recompute.push_back(all_recomputations()[rng.below(kRecomputations)]);
  const PackFlowStages bound(plain, kTwoStages, recompute, {});
  std::array<std::int32_t, kRecomputations> sum{};
  for (std::int32_t s = 0; s < 2; ++s) {
    const auto counts = bound.layers_by_recompute(StageId(s), 0);
    for (std::size_t r = 0; r < counts.size(); ++r) sum[r] += counts[r];
  }
  for (const Recompute r : all_recomputations())
    RC_ASSERT(sum[static_cast<std::size_t>(r)] ==
              std::count(recompute.begin(), recompute.end(), r));
}

}  // namespace
}  // namespace slimpack
