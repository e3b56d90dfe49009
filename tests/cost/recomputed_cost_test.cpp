#include <gtest/gtest.h>

#include "tests/cost/round_model.h"

namespace slimpack {
namespace {

using testing::round_model_of_replicas;

// Matrix products of a layer of the model, in multiply-adds a token, with h = 20: q 20·24 = 480, k
// and v 2·20·8 = 320, output 480, gate and up 2·20·28 = 1120, down 560; together 2960.

TEST(WithRecompute, NothingLeavesTheModelAsItIs) {
  const CostModel cost = round_model_of_replicas();
  EXPECT_EQ(with_recompute(cost, Recompute::kNone), cost);
}

TEST(WithRecompute, AttentionRunsAgainWithItsQueriesAndItsExchange) {
  const CostModel cost = with_recompute(round_model_of_replicas(), Recompute::kAttention);
  EXPECT_EQ(cost.recompute, Recompute::kAttention);
  EXPECT_EQ(cost.forward, round_model_of_replicas().forward);
  // Backward {200, 20, 4, 2, 6} and forward {100, 10, 2, 1, 3}: half the overhead, q of the linear
  // time, all of attention.
  EXPECT_EQ(cost.backward, (LayerTime{250, 30, 4 + 480.0 / 2960 * 2, 3, 9}));
  ASSERT_EQ(cost.merge.size(), 2U);
  EXPECT_EQ(cost.merge[0], (MergeTime{{30, 0.5}, {60 + 30, 1.5 + 0.5}}));
  EXPECT_EQ(cost.merge[1], (MergeTime{{40, 0.25}, {80 + 40, 0.75 + 0.25}}));
}

TEST(WithRecompute, TheMlpRunsAgainUpToItsDownProjection) {
  const CostModel cost = with_recompute(round_model_of_replicas(), Recompute::kMlp);
  EXPECT_EQ(cost.backward, (LayerTime{250, 20, 4 + 1120.0 / 2960 * 2, 2, 6}));
  EXPECT_EQ(cost.merge, round_model_of_replicas().merge);
}

TEST(WithRecompute, FullKeepsKeysAndValuesAndNeedsNoDownProjection) {
  const CostModel cost = with_recompute(round_model_of_replicas(), Recompute::kFull);
  EXPECT_EQ(cost.backward, (LayerTime{300, 30, 4 + 2080.0 / 2960 * 2, 3, 9}));
  EXPECT_EQ(cost.merge[0], (MergeTime{{30, 0.5}, {90, 2}}));
}

TEST(WithRecompute, EdgesLinksAndWeightGradientsStay) {
  CostModel plain = round_model_of_replicas();
  plain.weight_gradient = {80, 1.5};
  for (const Recompute recompute : all_recomputations()) {
    const CostModel cost = with_recompute(plain, recompute);
    EXPECT_EQ(cost.weight_gradient, plain.weight_gradient);
    EXPECT_EQ(cost.embedding_backward, plain.embedding_backward);
    EXPECT_EQ(cost.head_backward, plain.head_backward);
    EXPECT_EQ(cost.optimizer_per_parameter, plain.optimizer_per_parameter);
    EXPECT_EQ(cost.transfer_per_byte, plain.transfer_per_byte);
  }
}

}  // namespace
}  // namespace slimpack
