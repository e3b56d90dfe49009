#include "tests/operators/operator_bytes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tests/operators/operator_steps.h"

namespace slimpack {
namespace {

/// Documents: of more rows a norm's backward has no further partial sums, as on a GPU. The row
/// without a target is one of more than 64, so that the head takes all rows.
constexpr Tokens kShort{96}, kLong{128};
/// Vocabularies of models that are counted. Bytes of the head grow linearly with it.
constexpr std::int64_t kSmall = 2048, kLarge = 4096;

bool is_product(std::string_view name) {
  constexpr std::array<std::string_view, 4> kProducts{"aten::mm", "aten::addmm", "aten::addmm_",
                                                      "aten::bmm"};
  return std::ranges::find(kProducts, name) != kProducts.end();
}

bool is_attention(std::string_view name) {
  return name.find("flash_attention") != std::string_view::npos ||
         name.find("flash_attn") != std::string_view::npos;
}

KindBytes operator+(const KindBytes& a, const KindBytes& b) {
  return {a.elementwise + b.elementwise, a.products + b.products, a.attention + b.attention};
}
KindBytes operator*(double factor, const KindBytes& a) {
  return {factor * a.elementwise, factor * a.products, factor * a.attention};
}
KindBytes operator-(const KindBytes& a, const KindBytes& b) {
  return a + -1.0 * b;
}

KindBytes by_kind(const OperatorCounts& operators) {
  KindBytes sum;
  for (const auto& [name, use] : operators) {
    double& kind = is_product(name)     ? sum.products
                   : is_attention(name) ? sum.attention
                                        : sum.elementwise;
    kind += static_cast<double>(use.bytes);
  }
  return sum;
}

/// Bytes by pass, forward first.
using Passes = std::array<KindBytes, 2>;

/// Bytes of each token of a document, and what does not grow with tokens.
struct StageBytes {
  Passes token, whole;
};

/// Counts the last of so many stages of a model of two layers at most. That stage runs forward and
/// backward of a shorter document, then those of a longer one. The third document is there because
/// an action ends where the next one begins.
StageBytes of_a_stage(OperatorCase c, std::int64_t layers, std::int32_t stages) {
  c.stages = stages;
  c.lengths = {kShort, kLong, kShort};
  const Moments moments = count_step(c, layers);
  StageBytes sum;
  for (std::size_t pass = 0; pass < 2; ++pass) {
    const auto bytes = [&](std::size_t pack) {
      return by_kind(cost_of(moments, stages - 1, 2 * pack + pass).operators);
    };
    sum.token[pass] = 1 / static_cast<double>((kLong - kShort).count()) * (bytes(1) - bytes(0));
    sum.whole[pass] = bytes(0) - static_cast<double>(kShort.count()) * sum.token[pass];
  }
  return sum;
}

OperatorCase small_vocabulary(const Decoder& shape, Recompute recompute) {
  count_operators(testing::kPretended);
  OperatorCase c{.device = testing::kPretended, .shape = shape, .recompute = recompute};
  c.shape.vocab_size = kSmall;
  return c;
}

}  // namespace

LayerBytes count_layer_bytes(const Decoder& shape, Recompute recompute) {
  const OperatorCase c = small_vocabulary(shape, recompute);
  const Passes one = of_a_stage(c, 1, 1).token, two = of_a_stage(c, 2, 1).token;
  return {two[0] - one[0], two[1] - one[1]};
}

HeadBytes count_head_bytes(const Decoder& shape) {
  OperatorCase c = small_vocabulary(shape, Recompute::kElementwise);
  const LayerBytes layer = count_layer_bytes(shape, c.recompute);
  // The last stage has one layer and the head; the first one has the embedding.
  const auto last_stage = [&](std::int64_t vocabulary) {
    c.shape.vocab_size = vocabulary;
    const StageBytes last = of_a_stage(c, 2, 2);
    return std::pair(last.token[0] + last.token[1] - layer.forward - layer.backward,
                     last.whole[0] + last.whole[1]);
  };
  const auto [small, small_whole] = last_stage(kSmall);
  const auto [large, large_whole] = last_stage(kLarge);
  const double a_word = 1 / static_cast<double>(kLarge - kSmall);
  const auto words = static_cast<double>(shape.vocab_size);
  return {small + a_word * (words - static_cast<double>(kSmall)) * (large - small),
          words * a_word * (large_whole - small_whole)};
}

}  // namespace slimpack
