#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/cost/cost_model.h"
#include "tests/cost/shapes.h"

namespace slimpack {
namespace {

using testing::llama2_7b;
using testing::small_gqa;

/// Multiply-adds of y = x·W for one token, counted one by one.
double count_product(std::int64_t inputs, std::int64_t outputs) {
  double count = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) count += 1;
  }
  return count;
}

TEST(Flops, LinearWorkOfGroupedQueriesMatchesACountOverEveryWeightMatrix) {
  const LayerShape s = small_gqa().kinds[0];
  const std::int64_t q = s.num_heads * s.head_dim;
  const std::int64_t kv = s.num_kv_heads * s.head_dim;
  const double multiply_adds = count_product(s.hidden_size, q) +              // q projection
                               count_product(s.hidden_size, kv) +             // k
                               count_product(s.hidden_size, kv) +             // v
                               count_product(q, s.hidden_size) +              // output projection
                               count_product(s.hidden_size, s.dense_width) +  // gate
                               count_product(s.hidden_size, s.dense_width) +  // up
                               count_product(s.dense_width, s.hidden_size);   // down
  const Tokens tokens(7);
  EXPECT_EQ(layer_linear_flops(s, tokens, Pass::kForward).count(), 2 * 7 * multiply_adds);
  EXPECT_EQ(layer_linear_flops(s, tokens, Pass::kBackward).count(), 4 * 7 * multiply_adds);
}

RC_GTEST_PROP(Flops, AttentionMatchesALoopOverEveryHeadQueryAndKey, ()) {
  const LayerShape s = small_gqa().kinds[0];
  const auto begin = *rc::gen::inRange<std::int64_t>(0, 40);
  const auto length = *rc::gen::inRange<std::int64_t>(1, 40);
  double multiply_adds = 0;
  for (std::int64_t head = 0; head < s.num_heads; ++head) {
    for (std::int64_t query = begin; query < begin + length; ++query) {
      for (std::int64_t key = 0; key <= query; ++key) {
        multiply_adds += static_cast<double>(s.head_dim);  // q·k
        multiply_adds += static_cast<double>(s.head_dim);  // p·v
      }
    }
  }
  const Slice slice{SequenceId(), Tokens(begin), Tokens(begin + length)};
  RC_ASSERT(layer_attention_flops(s, slice.causal_pairs(), Pass::kForward).count() ==
            2 * multiply_adds);
  // Backward computes five products per pair where forward computes two.
  RC_ASSERT(layer_attention_flops(s, slice.causal_pairs(), Pass::kBackward).count() ==
            5 * multiply_adds);
}

TEST(Flops, OfLlama2SevenBillionFollowFromItsParameterCount) {
  const Decoder s = llama2_7b();
  // 6,738,415,616 parameters, less the embedding (32,000 · 4,096 = 131,072,000), which is looked
  // up, and 65 norms of 4,096 (266,240): 6,607,077,376 weights in matrix products.
  constexpr double kProductWeights = 6607077376;
  const double forward_per_token =
      32 * layer_linear_flops(s.kinds[0], Tokens(1), Pass::kForward).count() +
      head_flops(s, Tokens(1), Pass::kForward).count();
  EXPECT_EQ(forward_per_token, 2 * kProductWeights);
  // Two documents of 4,096 tokens: 6·N·T for the products. Attention: 4,096·4,097/2 = 8,390,656
  // pairs each, 4·4,096 FLOPs per pair and layer, three times that with backward.
  const double products = 6 * kProductWeights * 8192;
  const double attention = 3.0 * 32 * 4 * 4096 * 2 * 8390656;
  Costs cost;
  cost.shape = s;
  EXPECT_DOUBLE_EQ(model_flops(cost, {Tokens(4096), Tokens(4096)}).count(), products + attention);
}

TEST(Flops, AttentionOvertakesLinearWorkAtTwelveHiddenSizesPlusTheFfn) {
  // Forward of a whole document: linear 2L(4h² + 3hf), attention 4h·L²/2 (L large). Equal at
  // L = 4h + 3f = 4·4,096 + 3·11,008 = 49,408, the 49K that the literature gives for 7B models.
  const LayerShape s = llama2_7b().kinds[0];
  const Slice whole{SequenceId(), Tokens(0), Tokens(49408)};
  EXPECT_NEAR(layer_attention_flops(s, whole.causal_pairs(), Pass::kForward).count() /
                  layer_linear_flops(s, whole.length(), Pass::kForward).count(),
              1.0, 1e-4);
}

}  // namespace
}  // namespace slimpack
