// RMSNorm, rope, linear maps and the head against plain loops and numerical differentiation.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>

#include "slimpack/cost/vocabulary_memory.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/kernels/vocabulary.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

using slimpack::testing::inner_product;
using slimpack::testing::numerical_gradient;
using slimpack::testing::random_parameter;
using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;

constexpr double kDerivative = 1e-8;  // what numerical_gradient is good for

TEST(RmsNorm, DividesEveryRowByItsRootMeanSquareAndScalesIt) {
  // Row (3, 4): mean square 12.5; with eps 12.5 the root is 5, so (0.6, 0.8) times (10, 100).
  Parameter weight;
  weight.value = at::tensor({10.0, 100.0}, at::kDouble);
  const at::Tensor y = rms_norm(at::tensor({3.0, 4.0}, at::kDouble).view({1, 2}), weight, 12.5);
  EXPECT_LT(relative_error(y, at::tensor({6.0, 80.0}, at::kDouble).view({1, 2})), 1e-15);
}

TEST(RmsNorm, BackwardIsTheDerivativeForRowsAndForHeads) {
  Rng rng(1);
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{5, 6}, std::vector<std::int64_t>{3, 2, 4}}) {
    const at::Tensor x = random_tensor(rng, sizes);
    const at::Tensor dy = random_tensor(rng, sizes);
    Parameter weight = random_parameter(rng, {sizes.back()});
    const at::Tensor dx = rms_norm_backward(dy, x, rms_normalize(x, 0.1), weight);
    const auto loss = [&] { return inner_product(rms_norm(x, weight, 0.1), dy); };
    EXPECT_LT(relative_error(dx, numerical_gradient(x, loss)), kDerivative);
    EXPECT_LT(relative_error(weight.gradient, numerical_gradient(weight.value, loss)), kDerivative);
  }
}

TEST(RmsNorm, FromAKnownRootMeanSquareHasTheSameBits) {
  Rng rng(7);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor x = random_tensor(rng, {5, 6}).to(type);
    const Normalized norm = rms_normalize(x, 0.1);
    EXPECT_TRUE(rms_normalize(x, 0.1, norm.rstd).n.equal(norm.n));
  }
  const at::Tensor x = random_tensor(rng, {5, 6}), dy = random_tensor(rng, {5, 6});
  const Normalized norm = rms_normalize(x, 0.1);
  Parameter weight = random_parameter(rng, {6});
  Parameter same = weight;
  same.gradient = weight.gradient.clone();
  const at::Tensor dx = rms_norm_backward(dy, x, norm, weight);
  EXPECT_TRUE(rms_norm_backward(dy, x, {{}, norm.rstd}, same).equal(dx));
  EXPECT_TRUE(same.gradient.equal(weight.gradient));
}

TEST(RmsNorm, RoundsTheNormalisedValueBeforeTheWeightAsHuggingFaceDoes) {
  // Row (1, 3): mean square 5, so 1/√5 = 0.44721… and 3/√5 = 1.34164…; the nearest bf16 numbers
  // (8 bits: steps of 2^-9 below 0.5 and of 2^-7 above 1) are 229/512 and 172/128.
  const at::Tensor x = at::tensor({1.0, 3.0}, at::kDouble).view({1, 2}).to(at::kBFloat16);
  const Normalized n = rms_normalize(x, 0.0);
  EXPECT_EQ(n.n.scalar_type(), at::kBFloat16);
  EXPECT_EQ(n.rstd.scalar_type(), at::kFloat);
  EXPECT_EQ(n.n[0][0].item<double>(), 0.447265625);
  EXPECT_EQ(n.n[0][1].item<double>(), 1.34375);
}

Decoder rope_shape(std::int64_t head_dim, double theta) {
  Decoder shape;
  shape.kinds[0].head_dim = shape.kinds[0].value_dim = head_dim;
  shape.rope_theta = theta;
  return shape;
}

MicroPack pack_of(std::initializer_list<Slice> slices) {
  return {std::vector<Slice>(slices)};
}

TEST(Rope, TurnsEachPairByPositionTimesItsFrequency) {
  Rng rng(2);
  const Rope rope(rope_shape(6, 100.0), Dtype::kFp64, Tokens(20));
  const MicroPack pack =
      pack_of({{SequenceId(0), Tokens(7), Tokens(9)}, {SequenceId(3), Tokens(0), Tokens(1)}});
  const at::Tensor x = random_tensor(rng, {3, 2, 6});
  const at::Tensor y = rotate(x, rope.rows({pack, ReplicaId(0)}));
  const double positions[] = {7, 8, 0};
  for (int t = 0; t < 3; ++t)
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 3; ++i) {
        const double angle = positions[t] * std::pow(100.0, -2.0 * i / 6);
        const double a = x[t][n][i].item<double>(), b = x[t][n][i + 3].item<double>();
        EXPECT_NEAR(y[t][n][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-14);
        EXPECT_NEAR(y[t][n][i + 3].item<double>(), b * std::cos(angle) + a * std::sin(angle),
                    1e-14);
      }
}

TEST(Rope, RotatingBackUndoesTheRotation) {
  Rng rng(3);
  const Rope rope(rope_shape(8, 1e4), Dtype::kFp64, Tokens(64));
  const RopeRows rows =
      rope.rows({pack_of({{SequenceId(0), Tokens(11), Tokens(40)}}), ReplicaId(0)});
  const at::Tensor x = random_tensor(rng, {29, 3, 8});
  const at::Tensor back = at::empty_like(x);
  rotate_back(rotate(x, rows), rows, back);
  EXPECT_LT(relative_error(back, x), 1e-14);
}

TEST(Rope, TakesNoCopyOfItsTablesForASingleSlice) {
  const Rope rope(rope_shape(4, 1e4), Dtype::kFp64, Tokens(16));
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    return rope.rows({pack_of({{SequenceId(0), Tokens(begin), Tokens(end)}}), ReplicaId(0)});
  };
  EXPECT_TRUE(rows(2, 5).cos.is_alias_of(rows(4, 9).cos));
  EXPECT_EQ(rows(2, 5).sin.sizes(), (std::vector<std::int64_t>{3, 1, 2}));
}

TEST(Linear, ComputesItsSumsAndAddsBiasAndResidual) {
  Rng rng(4);
  const at::Tensor x = random_tensor(rng, {5, 3});
  const at::Tensor residual = random_tensor(rng, {5, 4});
  const Parameter weight = random_parameter(rng, {4, 3}), bias = random_parameter(rng, {4});
  at::Tensor product = at::zeros({5, 4}, at::kDouble);
  for (int t = 0; t < 5; ++t)
    for (int o = 0; o < 4; ++o)
      for (int i = 0; i < 3; ++i) product[t][o] += weight.value[o][i] * x[t][i];
  EXPECT_LT(relative_error(linear(x, weight, {}), product), 1e-14);
  EXPECT_LT(relative_error(linear(x, weight, bias), product + bias.value), 1e-14);
  EXPECT_LT(relative_error(linear_onto(residual, x, weight, {}), product + residual), 1e-14);
  EXPECT_LT(relative_error(linear_onto(residual, x, weight, bias), product + residual + bias.value),
            1e-14);
}

TEST(Linear, GradientsAreTheDerivativesAndAddToWhatIsThere) {
  Rng rng(5);
  const at::Tensor x = random_tensor(rng, {5, 3}), dy = random_tensor(rng, {5, 4});
  Parameter weight = random_parameter(rng, {4, 3}), bias = random_parameter(rng, {4});
  weight.gradient.fill_(7);
  bias.gradient.fill_(-3);
  accumulate_linear_gradient(dy, x, weight, bias);
  const auto loss = [&] { return inner_product(linear(x, weight, bias), dy); };
  EXPECT_LT(relative_error(weight.gradient - 7, numerical_gradient(weight.value, loss)),
            kDerivative);
  EXPECT_LT(relative_error(bias.gradient + 3, numerical_gradient(bias.value, loss)), kDerivative);
  EXPECT_LT(relative_error(linear_input_gradient(dy, weight), numerical_gradient(x, loss)),
            kDerivative);
}

TEST(Linear, SumsBf16GradientsInFp32) {
  // 256 rows of 1 · 1 after 2^10: in bf16 (8 bits) adding 1 to 1024 changes nothing.
  Parameter weight;
  weight.value = at::ones({1, 1}, at::kBFloat16);
  weight.gradient = at::full({1, 1}, 1024.0, at::kFloat);
  Parameter bias = weight;
  bias.value = at::ones({1}, at::kBFloat16);
  bias.gradient = at::full({1}, 1024.0, at::kFloat);
  const at::Tensor ones = at::ones({1, 1}, at::kBFloat16);
  for (int i = 0; i < 3; ++i) accumulate_linear_gradient(ones, ones, weight, bias);
  EXPECT_EQ(weight.gradient.item<double>(), 1027);
  EXPECT_EQ(bias.gradient.item<double>(), 1027);
}

/// The gradient of bf16 numbers. Products of two have 16 bits, so fp64 sums them exactly here.
at::Tensor exact_gradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  return at::mm(dy_TO.to(at::kDouble).t(), x_TI.to(at::kDouble));
}

TEST(Linear, Bf16GradientsOfManyMicroPacksAreNotRoundedInBetween) {
  // Blocks of rows that are full, cut short, a single row, and several. Addends of either sign
  // leave sums of a tenth of Σ|dy·x| and less, to which each of some 800 additions in fp32 adds
  // 2⁻²⁴ of them at most, mostly against each other: 2e-7 is far more than they come to. A product
  // that is rounded to bf16 is off by up to 2⁻⁸ of it: the first alone, a tenth of its Σ|dy·x|, by
  // some 1e-4.
  Rng rng(7);
  Parameter weight, bias;
  weight.value = at::zeros({5, 7}, at::kBFloat16);
  weight.gradient = at::zeros({5, 7}, at::kFloat);
  at::Tensor expected = at::zeros({5, 7}, at::kDouble), magnitude = at::zeros_like(expected);
  for (int pack = 0; pack < 200; ++pack) {
    const std::int64_t rows = std::array<std::int64_t, 4>{256, 19, 1, 530}[pack % 4];
    const at::Tensor dy = random_tensor(rng, {rows, 5}).to(at::kBFloat16);
    const at::Tensor x = random_tensor(rng, {rows, 7}).to(at::kBFloat16);
    accumulate_linear_gradient(dy, x, weight, bias);
    expected.add_(exact_gradient(dy, x));
    magnitude.add_(exact_gradient(dy.abs(), x.abs()));
    const double error = (weight.gradient - expected).abs().div(magnitude).max().item<double>();
    EXPECT_LT(error, 2e-7) << "after " << pack + 1 << " MicroPacks";
  }
}

TEST(Linear, WidensBf16OperandsThatAreViews) {
  Rng rng(8);
  Parameter weight, bias;
  weight.value = at::zeros({5, 7}, at::kBFloat16);
  weight.gradient = at::zeros({5, 7}, at::kFloat);
  const at::Tensor dy = random_tensor(rng, {600, 9}).to(at::kBFloat16).narrow(1, 2, 5);
  const at::Tensor x = random_tensor(rng, {7, 600}).to(at::kBFloat16).t();
  accumulate_linear_gradient(dy, x, weight, bias);
  EXPECT_LT(relative_error(weight.gradient, exact_gradient(dy, x)), 1e-6);
}

/// A row's target is −1 where it has none.
constexpr std::int64_t kNone = -1;

struct HeadCase {
  Decoder shape;
  Parameter norm_H, head_VH;
  at::Tensor x_TH, targets_T;
  std::vector<double> weights = {};  ///< by row; empty = 1 each

  [[nodiscard]] HeadTargets targets(double step_weight) const {
    HeadTargets targets{.step_weight = step_weight};
    targets.rows_P = at::nonzero(targets_T.ne(kNone)).flatten();
    targets.targets_P = targets_T.index_select(0, targets.rows_P);
    if (!weights.empty())
      targets.weights_P1 =
          at::tensor(weights, at::kDouble).index_select(0, targets.rows_P).unsqueeze(1);
    return targets;
  }
  /// The result of the head, which x_TH outlives.
  [[nodiscard]] HeadResult run(double step_weight) {
    return head_backward(shape, norm_H, head_VH, x_TH.clone(), targets(step_weight));
  }
};

HeadCase head_case(Rng& rng, std::int64_t rows, std::int64_t hidden, std::int64_t vocab) {
  HeadCase c;
  c.shape.kinds[0].hidden_size = hidden;
  c.shape.vocab_size = vocab;
  c.shape.rms_norm_eps = 1e-5;
  c.norm_H = random_parameter(rng, {hidden});
  c.head_VH = random_parameter(rng, {vocab, hidden});
  c.x_TH = random_tensor(rng, {rows, hidden});
  c.targets_T = at::empty({rows}, at::kLong);
  for (std::int64_t t = 0; t < rows; ++t)
    c.targets_T[t] = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(vocab)));
  return c;
}

/// Σ −weight · log softmax(head · norm(x))[target] over the rows that have a target, by definition.
double naive_loss(const HeadCase& c) {
  const auto x_TH = c.x_TH.accessor<double, 2>();
  const auto norm_H = c.norm_H.value.accessor<double, 1>();
  const auto head_VH = c.head_VH.value.accessor<double, 2>();
  const auto targets_T = c.targets_T.accessor<std::int64_t, 1>();
  const auto width = static_cast<std::int64_t>(x_TH.size(1));
  double loss = 0;
  for (std::int64_t t = 0; t < x_TH.size(0); ++t) {
    if (targets_T[t] == kNone) continue;
    double squares = 0;
    for (std::int64_t h = 0; h < width; ++h) squares += x_TH[t][h] * x_TH[t][h];
    const double rms = std::sqrt(squares / static_cast<double>(width) + c.shape.rms_norm_eps);
    const auto logit = [&](std::int64_t v) {
      double sum = 0;
      for (std::int64_t h = 0; h < width; ++h)
        sum += head_VH[v][h] * (x_TH[t][h] / rms * norm_H[h]);
      return sum;
    };
    double total = 0;
    for (std::int64_t v = 0; v < c.shape.vocab_size; ++v) total += std::exp(logit(v));
    const double weight = c.weights.empty() ? 1 : c.weights[static_cast<std::size_t>(t)];
    loss += weight * (std::log(total) - logit(targets_T[t]));
  }
  return loss;
}

TEST(Head, LossAndGradientsFollowFromTheDefinition) {
  Rng rng(6);
  HeadCase c = head_case(rng, 6, 3, 7);
  c.targets_T[0] = c.targets_T[3] = c.targets_T[4] = kNone;
  c.weights = {9, 0.5, 2, 9, 9, 1.25};
  const HeadResult r = c.run(10);
  EXPECT_NEAR(r.loss_sum.item<double>(), naive_loss(c), 1e-13);
  const auto mean = [&] { return naive_loss(c) / 10; };
  EXPECT_LT(relative_error(r.dx_TH, numerical_gradient(c.x_TH, mean)), kDerivative);
  EXPECT_LT(relative_error(c.norm_H.gradient, numerical_gradient(c.norm_H.value, mean)),
            kDerivative);
  EXPECT_LT(relative_error(c.head_VH.gradient, numerical_gradient(c.head_VH.value, mean)),
            kDerivative);
}

TEST(Head, LossAloneFollowsFromTheDefinition) {
  Rng rng(9);
  HeadCase c = head_case(rng, 150, 4, 20000);  // three blocks, as below
  c.targets_T[2] = kNone;
  const TensorRows alone;
  const at::Tensor loss =
      head_loss(c.shape, c.norm_H, c.head_VH, c.x_TH, c.targets(1), alone, nullptr);
  const double expected = naive_loss(c);
  EXPECT_NEAR(loss.item<double>(), expected, 1e-13 * expected);
}

TEST(Head, RowsWithoutATargetLeaveNoTrace) {
  Rng rng(7);
  HeadCase c = head_case(rng, 3, 4, 5);
  c.targets_T.fill_(kNone);
  const HeadResult r = c.run(1);
  EXPECT_EQ(r.loss_sum.item<double>(), 0);
  for (const at::Tensor& gradient : {r.dx_TH, c.norm_H.gradient, c.head_VH.gradient})
    EXPECT_TRUE(gradient.eq(0).all().item<bool>());
}

TEST(Head, SeveralBlocksOfRowsEqualOneBlockEach) {
  Rng rng(8);
  HeadCase c = head_case(rng, 150, 4, 20000);
  // 2^20 / 20,000 = 52, at least 64; 100 rows have a target: blocks 64, 36
  ASSERT_EQ(head_block(c.shape.vocab_size, DeviceKind::kCpu), Tokens(64));
  HeadCase apart = c;
  apart.norm_H.gradient = at::zeros_like(c.norm_H.gradient);
  apart.head_VH.gradient = at::zeros_like(c.head_VH.gradient);
  for (std::int64_t row = 0; row < 150; row += 2 + row % 3) c.targets_T[row] = kNone;
  const HeadResult r = c.run(150);
  double loss = 0;
  std::vector<at::Tensor> dx;
  for (const auto& [begin, rows] : {std::pair(0, 50), std::pair(50, 50), std::pair(100, 50)}) {
    apart.x_TH = c.x_TH.narrow(0, begin, rows);
    apart.targets_T = c.targets_T.narrow(0, begin, rows);
    const HeadResult part = apart.run(150);
    loss += part.loss_sum.item<double>();
    dx.push_back(part.dx_TH);
  }
  EXPECT_NEAR(r.loss_sum.item<double>(), loss, 1e-12 * loss);
  EXPECT_LT(relative_error(r.dx_TH, at::cat(dx)), 1e-13);
  EXPECT_LT(relative_error(c.norm_H.gradient, apart.norm_H.gradient), 1e-12);
  EXPECT_LT(relative_error(c.head_VH.gradient, apart.head_VH.gradient), 1e-12);
}

TEST(Head, LargeLogitsDoNotOverflow) {
  // Logits 1000 and 0: p = (1, e^-1000 = 0). The loss of the second is 1000, its gradients 1, −1.
  HeadCase c;
  c.shape.kinds[0].hidden_size = 1;
  c.shape.vocab_size = 2;
  c.shape.rms_norm_eps = 0;
  c.norm_H.value = at::ones({1}, at::kDouble);
  c.norm_H.gradient = at::zeros({1}, at::kDouble);
  c.head_VH.value = at::tensor({1000.0, 0.0}, at::kDouble).view({2, 1});
  c.head_VH.gradient = at::zeros({2, 1}, at::kDouble);
  c.x_TH = at::ones({1, 1}, at::kDouble);
  c.targets_T = at::ones({1}, at::kLong);
  const HeadResult r = c.run(1);
  EXPECT_EQ(r.loss_sum.item<double>(), 1000);
  EXPECT_EQ(c.head_VH.gradient[0].item<double>(), 1);
  EXPECT_EQ(c.head_VH.gradient[1].item<double>(), -1);
}

}  // namespace
}  // namespace slimpack
