#include "bench/operator_bytes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/operator_steps.h"

namespace slimpack {
namespace {

/// Documents: of more rows a norm's backward has no further partial sums, as on a GPU.
constexpr Tokens kShort{64}, kLong{96};
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

/// By pass, forward first.
using Passes = std::array<KindBytes, 2>;

/// Each token of a document, on the last of so many stages of a model of two layers at most. The
/// last stage's first two actions are a forward and its backward.
Passes of_a_token(OperatorCase c, std::int64_t layers, std::int32_t stages) {
  c.stages = stages;
  c.document = kShort;
  const Moments few = count_step(c, layers);
  c.document = kLong;
  const Moments many = count_step(c, layers);
  const auto tokens = static_cast<double>((kLong - kShort).count());
  Passes passes;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    const KindBytes more = by_kind(cost_of(many, stages - 1, pass).operators) -
                           by_kind(cost_of(few, stages - 1, pass).operators);
    passes[pass] = 1.0 / tokens * more;
  }
  return passes;
}

}  // namespace

TokenBytes count_token_bytes(const ModelShape& shape, Recompute recompute) {
  count_operators(testing::kPretended);
  OperatorCase c{.device = testing::kPretended, .shape = shape, .recompute = recompute};
  c.shape.vocab_size = kSmall;
  const Passes one = of_a_token(c, 1, 1), two = of_a_token(c, 2, 1);
  const KindBytes forward = two[0] - one[0], backward = two[1] - one[1];
  // A stage of one layer and the head; another one has the embedding.
  const auto head = [&](std::int64_t vocabulary) {
    c.shape.vocab_size = vocabulary;
    const Passes last = of_a_token(c, 2, 2);
    return last[0] + last[1] - forward - backward;
  };
  const KindBytes small = head(kSmall), large = head(kLarge);
  const double steps =
      static_cast<double>(shape.vocab_size - kSmall) / static_cast<double>(kLarge - kSmall);
  return {forward, backward, small + steps * (large - small)};
}

}  // namespace slimpack
