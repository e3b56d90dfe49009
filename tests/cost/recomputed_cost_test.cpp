#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "tests/cost/round_model.h"

namespace slimpack {
namespace {

using testing::round_model_of_replicas;
using testing::slice;

// Matrix products of a layer of the model, in multiply-adds a token, with h = 20: q 20·24 = 480, k
// and v 20·8 = 160 each, output 480, gate and up 2·20·28 = 1120, down 560; together 2960. Its q and
// k are normalised.

TEST(BackwardTime, IsThatOfTheModelWhereOnlyElementwiseWorkIsDoneAgain) {
  const CostModel cost = round_model_of_replicas();
  EXPECT_EQ(backward_time(cost, Recompute::kElementwise), cost.backward);
}

TEST(BackwardTime, WithoutAnythingDoneAgainSavesTheElementwiseWork) {
  CostModel cost = round_model_of_replicas();
  EXPECT_EQ(backward_time(cost, Recompute::kNothing), cost.backward);  // not known: nothing saved
  cost.elementwise = {30, 0.5};
  EXPECT_EQ(backward_time(cost, Recompute::kNothing), (LayerTime{170, 20, 3.5, 2, 6}));
}

TEST(BackwardTime, OfAttentionHasItsQueriesAndItself) {
  // Backward {200, 20, 4, 2, 6} and forward {100, 10, 2, 1, 3}: half the overhead, q of the linear
  // time, all of attention.
  CostModel cost = round_model_of_replicas();
  cost.shape.qk_norm = false;
  EXPECT_EQ(backward_time(cost, Recompute::kAttention),
            (LayerTime{250, 30, 4 + 480.0 / 2960 * 2, 3, 9}));
}

TEST(BackwardTime, OfAttentionWithNormalisedKeysHasTheirProjectionToo) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kAttention),
            (LayerTime{250, 30, 4 + 640.0 / 2960 * 2, 3, 9}));
}

TEST(BackwardTime, OfTheMlpGoesUpToItsDownProjection) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kMlp),
            (LayerTime{250, 20, 4 + 1120.0 / 2960 * 2, 2, 6}));
}

TEST(BackwardTime, OfEverythingNeedsNeitherValuesNorTheDownProjection) {
  EXPECT_EQ(backward_time(round_model_of_replicas(), Recompute::kFull),
            (LayerTime{300, 30, 4 + 2240.0 / 2960 * 2, 3, 9}));
}

/// Two stages of one and two layers, of a model of three.
const StageLayout kTwoStages{{0, 1, 3}};

TEST(WithRecompute, AStageTakesTheSumOfItsLayers) {
  const CostModel plain = round_model_of_replicas();
  ASSERT_EQ(plain.shape.num_layers, 3);
  const CostModel mixed =
      with_recompute(plain, {Recompute::kFull, Recompute::kAttention, Recompute::kElementwise});
  const Slice s = slice(0, 3, 10);
  const auto alone = [&](Recompute recompute, StageId stage) {
    return slice_cost(with_recompute(plain, recompute), kTwoStages, stage, true)(s);
  };
  const StageId first(std::int32_t{0});
  const StageId last(std::int32_t{1});
  EXPECT_DOUBLE_EQ(slice_cost(mixed, kTwoStages, first, true)(s), alone(Recompute::kFull, first));
  EXPECT_DOUBLE_EQ(slice_cost(mixed, kTwoStages, last, true)(s),
                   (alone(Recompute::kAttention, last) + alone(Recompute::kElementwise, last)) / 2);
  EXPECT_EQ(slice_cost(mixed, kTwoStages, last, false), slice_cost(plain, kTwoStages, last, false));
  // Overheads: 250 + 200 of the layers, 4,000 of the head; 300 of the full layer, 2,000 of the
  // embedding.
  EXPECT_EQ(pack_overhead(mixed, kTwoStages, last, true), 4450);
  EXPECT_EQ(pack_overhead(mixed, kTwoStages, first, true), 2300);
}

TEST(WithRecompute, AttentionOfAMergedPackIsExchangedAgainInTheLayersThatRunItAgain) {
  const CostModel plain = round_model_of_replicas();
  const StageId last(std::int32_t{1});
  const auto overhead = [&](const RecomputeByLayer& recompute) {
    return pack_overhead(with_recompute(plain, recompute), kTwoStages, last, true, 2);
  };
  using R = Recompute;
  // Of two replicas 30 forward and 60 backward a layer.
  EXPECT_EQ(overhead({}), 4000 + 2 * 200 + 2 * 60);
  EXPECT_EQ(overhead({R::kFull, R::kMlp, R::kElementwise}), 4000 + 250 + 200 + 2 * 60);
  EXPECT_EQ(overhead({R::kMlp, R::kAttention, R::kElementwise}), 4000 + 250 + 200 + 2 * 60 + 30);
  EXPECT_EQ(overhead({R::kMlp, R::kAttention, R::kFull}), 4000 + 250 + 300 + 2 * 60 + 2 * 30);
  // Per token of the pack, 0.5 forward and 1.5 backward; the layers' own time is shared.
  const CostModel cost = with_recompute(plain, {R::kMlp, R::kAttention, R::kElementwise});
  EXPECT_DOUBLE_EQ(merged_slice_cost(cost, kTwoStages, last, true, 2).per_token,
                   (2 * 4 + 640.0 / 2960 * 2 + 11) / 2 + 2 * 1.5 + 0.5);
}

TEST(WithRecompute, EdgesLinksAndWeightGradientsStay) {
  CostModel plain = round_model_of_replicas();
  plain.weight_gradient = {80, 1.5};
  const PackPlan packs{{{{slice(0, 0, 9)}}}, {{{slice(0, 0, 9)}}}};
  const TaskTimes before = task_times(plain, kTwoStages, packs);
  for (const Recompute recompute : all_recomputations()) {
    const TaskTimes after = task_times(with_recompute(plain, recompute), kTwoStages, packs);
    EXPECT_EQ(after.forward, before.forward);
    EXPECT_EQ(after.weight_gradient, before.weight_gradient);
    EXPECT_EQ(after.forward_transfer, before.forward_transfer);
    EXPECT_EQ(after.step_end, before.step_end);
  }
}

TEST(WithRecompute, TakesAPolicyForEveryLayerOnce) {
  const CostModel cost = round_model_of_replicas();
  EXPECT_THROW((void)with_recompute(cost, RecomputeByLayer{Recompute::kMlp}), InternalError);
  EXPECT_THROW((void)with_recompute(with_recompute(cost, Recompute::kMlp), Recompute::kMlp),
               InternalError);
  EXPECT_EQ(with_recompute(cost, RecomputeByLayer{}), cost);
}

RC_GTEST_PROP(LayersByRecompute, CountTheLayersOfEveryStage, (std::uint64_t seed)) {
  Rng rng(seed);
  CostModel cost = round_model_of_replicas();
  RecomputeByLayer recompute;
  for (std::int64_t l = 0; l < cost.shape.num_layers; ++l)
    recompute.push_back(all_recomputations()[rng.below(kRecomputations)]);
  cost = with_recompute(cost, recompute);
  std::array<std::int32_t, kRecomputations> sum{};
  for (std::int32_t s = 0; s < 2; ++s) {
    const auto counts = layers_by_recompute(cost, kTwoStages, StageId(s));
    for (std::size_t r = 0; r < counts.size(); ++r) sum[r] += counts[r];
  }
  for (const Recompute r : all_recomputations())
    RC_ASSERT(sum[static_cast<std::size_t>(r)] ==
              std::count(recompute.begin(), recompute.end(), r));
}

}  // namespace
}  // namespace slimpack
