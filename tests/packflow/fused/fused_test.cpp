// The fused kernels as loops, by random shapes, against their definition in fp64 by libtorch's
// operators. Loops and GPUs run the same bodies over the same lanes in the same order.
#include "slimpack/packflow/fused/fused.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "slimpack/base/random.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack::fused {
namespace {

using slimpack::testing::kPretended;
using slimpack::testing::random_tensor;
using slimpack::testing::seen_by_cpu;

TORCH_LIBRARY_IMPL(slimpack, PrivateUse1, m) {
  implement(m, loop_launchers());
}

constexpr double kOnce = 1.01 / 256, kTwice = 2.02 / 256;  // bf16 roundings on the way
constexpr int kShapes = 250;                               // of each kind
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Random bf16 values on the device.
at::Tensor random_bf16(Rng& rng, at::IntArrayRef sizes, double deviation = 1) {
  return (random_tensor(rng, sizes) * deviation).to(at::kBFloat16).to(kPretended);
}

at::Tensor fp64(const at::Tensor& there) {
  return seen_by_cpu(there).to(at::kDouble);
}

/// Whether every element is within `relative` of the expected one's magnitude and the usual one's.
::testing::AssertionResult near(const at::Tensor& computed, const at::Tensor& expected,
                                double relative) {
  const at::Tensor got = fp64(computed).reshape(expected.sizes());
  const at::Tensor usual = expected.isfinite().logical_and(expected.ne(0)).any().item<bool>()
                               ? expected.where(expected.isfinite(), 0).square().mean().sqrt()
                               : at::zeros({}, at::kDouble);
  const at::Tensor close =
      (got - expected).abs().le((expected.abs() + usual) * relative).logical_or(got.eq(expected));
  if (close.all().item<bool>()) return ::testing::AssertionSuccess();
  const std::int64_t first = close.reshape({-1}).logical_not().nonzero()[0][0].item<std::int64_t>();
  return ::testing::AssertionFailure() << "element " << first << " of " << expected.sizes()
                                       << " is " << got.reshape({-1})[first].item<double>()
                                       << ", not " << expected.reshape({-1})[first].item<double>();
}

/// A number of rows and a multiple of 8, mostly small.
struct Shape {
  explicit Shape(Rng& rng, std::int64_t widest)
      : rows(1 + static_cast<std::int64_t>(rng.below(rng.below(8) == 0 ? 70 : 6))) {
    const auto vectors = static_cast<std::uint64_t>(widest / 8);
    width = 8 * (1 + static_cast<std::int64_t>(rng.below(rng.below(6) == 0 ? vectors : 40)));
  }
  std::int64_t rows, width;
};

at::Tensor rounded(const at::Tensor& x) {
  return x.to(at::kBFloat16).to(at::kDouble);
}

TEST(Fused, SwigluIsItsDefinition) {
  Rng rng(1);
  for (int i = 0; i < kShapes; ++i) {
    const Shape s(rng, 3000);
    at::Tensor gate_up = random_bf16(rng, {s.rows, 2 * s.width}, 3);
    seen_by_cpu(gate_up)[0][0] = i % 2 == 0 ? -300 : 300;  // the exponential overflows, or vanishes
    const at::Tensor dact = random_bf16(rng, {s.rows, s.width});
    const at::Tensor g = fp64(gate_up).narrow(1, 0, s.width).clone(),
                     u = fp64(gate_up).narrow(1, s.width, s.width).clone(), dy = fp64(dact);
    const at::Tensor sigmoid = g.sigmoid(), act = g * sigmoid * u;
    const at::Tensor d = at::cat({dy * u * sigmoid * (1 + g * (1 - sigmoid)), dy * g * sigmoid}, 1);
    const at::Tensor computed = at::empty_like(dact);
    swiglu(gate_up, computed);
    ASSERT_TRUE(near(computed, act, kTwice));
    const bool in_place = i % 3 == 0;
    const at::Tensor d_gate_up = in_place ? gate_up : at::empty_like(gate_up);
    swiglu_backward(dact, gate_up, d_gate_up);
    ASSERT_TRUE(near(d_gate_up, d, kTwice));
    ASSERT_TRUE(seen_by_cpu(dact).equal(seen_by_cpu(computed))) << "not the same activation";
  }
}

TEST(Fused, RmsNormIsItsDefinition) {
  Rng rng(2);
  for (int i = 0; i < kShapes; ++i) {
    const Shape s(rng, 8192);
    const double eps = 1e-5;
    const at::Tensor x = random_bf16(rng, {s.rows, s.width}, 2),
                     weight = random_bf16(rng, {s.width}), dy = random_bf16(rng, {s.rows, s.width}),
                     residual = i % 2 == 0 ? random_bf16(rng, {s.rows, s.width}) : at::Tensor();
    if (i % 5 == 0) seen_by_cpu(x)[0].zero_();
    const at::Tensor v = fp64(x), w = fp64(weight), d = fp64(dy);
    const at::Tensor rstd = (v.square().mean(1, true) + eps).rsqrt(), n = v * rstd, g = d * w;
    at::Tensor dx = rstd * (g - n * (g * n).mean(1, true));
    if (residual.defined()) dx = dx + fp64(residual);
    // Hugging Face rounds n before the weight multiplies it.
    const at::Tensor y = n * w, dweight = (d * rounded(n)).sum(0) + 1;
    ASSERT_TRUE(takes_norm(x, weight));
    ASSERT_TRUE(near(rms_norm(x, weight, eps), y, kTwice));
    const at::Tensor sum = at::ones({s.width}, at::kFloat).to(kPretended);
    // y may take the place of x.
    const at::Tensor again = i % 3 == 0 ? x : i % 3 == 1 ? at::empty_like(x) : at::Tensor();
    rms_norm_backward(dy, {x, weight, residual, eps}, again, sum);
    ASSERT_TRUE(near(dy, dx, kOnce));
    if (again.defined()) {
      ASSERT_TRUE(near(again, y, kTwice));
    }
    ASSERT_TRUE(near(sum, dweight, kOnce));
  }
}

TEST(Fused, CrossEntropyIsItsDefinition) {
  Rng rng(3);
  for (int i = 0; i < kShapes; ++i) {
    const Shape s(rng, 40000);
    const std::int64_t from = i % 2 == 0 ? 0 : 96;
    const at::Tensor logits = random_bf16(rng, {s.rows, s.width}, 4);
    at::Tensor targets = at::empty({s.rows}, at::kLong), weight = at::zeros({s.rows, 1});
    seen_by_cpu(logits)[0][s.width - 1] = -kInfinity;
    for (std::int64_t t = 0; t < s.rows; ++t) {
      const auto below = static_cast<std::uint64_t>(s.width);
      const auto here = from + static_cast<std::int64_t>(rng.below(below - 1));
      // Among these columns, not at all, or among another rank's.
      targets[t] = t % 3 == 0 ? here : t % 3 == 1 ? -1 : from + s.width;
      weight[t] = t % 3 == 1 ? 0.0 : 0.25;
    }
    const at::Tensor x = fp64(logits).clone(), lse = x.logsumexp({1}, true);
    const at::Tensor here = (at::arange(s.width).unsqueeze(0) + from).eq(targets.unsqueeze(1));
    const at::Tensor target = at::where(here, x, 0).sum(1, true);
    const at::Tensor d = weight * ((x - lse).exp() - here.to(at::kDouble));
    const at::Tensor columns = targets.to(kPretended);
    const TargetLogits own = cross_entropy(logits, columns, from);
    ASSERT_TRUE(near(own.lse_T1, lse, 1e-6));
    ASSERT_TRUE(near(own.target_T1, target, 0));
    if (s.rows > 1) seen_by_cpu(logits)[1].fill_(std::nan(""));  // its weight is 0
    cross_entropy_backward(logits, columns, from, own.lse_T1, weight.to(kPretended));
    ASSERT_TRUE(near(logits, d, kOnce));
  }
}

/// x turned by its angles, in fp64.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
  return at::cat({a * cos - sign * b * sin, b * cos + sign * a * sin}, 2);
}

/// Random heads of a projection, and room for what the kernels make of them.
struct RandomHeads {
  RandomHeads(Rng& rng, std::int64_t row_count, std::int64_t widest)
      : rows(row_count),
        heads(1 + static_cast<std::int64_t>(rng.below(5))),
        groups(1 + static_cast<std::int64_t>(rng.below(3))),
        dim(16 * (1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(widest))))),
        qkv(random_bf16(rng, {rows, heads + 2 * groups, dim})),
        angles(random_bf16(rng, {2 * rows, 2, 1, dim / 2})),
        cos(angles.select(1, 0).slice(0, 0, 2 * rows, 2)),
        sin(angles.select(1, 1).slice(0, 0, 2 * rows, 2)) {}

  [[nodiscard]] Heads split(const at::Tensor& all) const {
    return {all.narrow(1, 0, heads), all.narrow(1, heads, groups),
            all.narrow(1, heads + groups, groups)};
  }
  /// Room for queries.
  [[nodiscard]] at::Tensor queries() const { return at::empty({rows, heads, dim}, qkv.options()); }
  /// Room for keys or values, head by head as the key/value store has them.
  [[nodiscard]] at::Tensor keys() const {
    return at::empty({groups, rows, dim}, qkv.options()).transpose(0, 1);
  }

  std::int64_t rows, heads, groups, dim;
  at::Tensor qkv, angles, cos, sin;
};

TEST(Fused, RopeIsItsDefinitionOverAnyStrides) {
  Rng rng(4);
  for (int i = 0; i < kShapes; ++i) {
    const RandomHeads r(rng, 1 + static_cast<std::int64_t>(rng.below(9)), 8);
    const at::Tensor &cos = r.cos, &sin = r.sin;
    const Heads from = r.split(r.qkv);
    const Heads to{r.queries(), r.keys(), i % 2 == 0 ? r.keys() : at::Tensor()};
    ASSERT_TRUE(takes_heads(from, {cos, sin}, to));
    rope(from, {cos, sin}, 1, to);
    const at::Tensor c = fp64(cos), s = fp64(sin);
    ASSERT_TRUE(near(to.q_TND, turned(fp64(from.q_TND), c, s, 1), kOnce));
    ASSERT_TRUE(near(to.k_TGD, turned(fp64(from.k_TGD), c, s, 1), kOnce));
    if (to.v_TGD.defined()) {
      ASSERT_TRUE(seen_by_cpu(to.v_TGD).equal(seen_by_cpu(from.v_TGD)));
    }
    const Heads d = r.split(at::empty_like(r.qkv));
    rope({to.q_TND, to.k_TGD, from.v_TGD}, {cos, sin}, -1, d);
    ASSERT_TRUE(near(d.q_TND, turned(fp64(to.q_TND), c, s, -1), kOnce));
    ASSERT_TRUE(near(d.k_TGD, turned(fp64(to.k_TGD), c, s, -1), kOnce));
    ASSERT_TRUE(seen_by_cpu(d.v_TGD).equal(seen_by_cpu(from.v_TGD)));
  }
}

/// x / rms(x) of each head and 1 / rms(x), in fp64.
struct NormedHead {
  NormedHead(const at::Tensor& x, double eps)
      : rstd((x.square().mean(2, true) + eps).rsqrt()), n(x * rstd) {}
  at::Tensor rstd, n;
};

TEST(Fused, NormsBeforeRopeAreTheirDefinition) {
  Rng rng(7);
  const double eps = 1e-6;
  for (int i = 0; i < kShapes; ++i) {
    // Some have more heads than a block, and heads of the greatest width.
    const RandomHeads r(rng, 1 + static_cast<std::int64_t>(rng.below(i % 10 == 0 ? 90 : 9)),
                        i % 20 == 1 ? 32 : 9);
    const at::Tensor q_weight = random_bf16(rng, {r.dim}), k_weight = random_bf16(rng, {r.dim});
    const HeadNorms norms{q_weight, k_weight, eps};
    const Heads from = r.split(r.qkv);
    if (i % 7 == 0) seen_by_cpu(from.q_TND)[0].zero_();
    ASSERT_TRUE(takes_normed_heads(from, norms));
    const bool keeps = i % 3 == 0, alone = i % 4 == 0;  // queries alone
    const Heads to{r.queries(), alone ? at::Tensor() : r.keys(),
                   i % 4 == 1 ? at::Tensor() : r.keys()};
    const Heads kept{
        keeps ? r.queries() : at::Tensor(), keeps && !alone ? r.keys() : at::Tensor(), {}};
    const Heads given = alone ? Heads{from.q_TND, {}, {}} : from;
    normed_rope(given, {r.cos, r.sin}, norms, alone ? Heads{to.q_TND, {}, {}} : to, kept);
    const at::Tensor c = fp64(r.cos), s = fp64(r.sin);
    const auto expect = [&](const at::Tensor& got, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& copy) {
      // Hugging Face rounds n, and then its product with the weight.
      const at::Tensor y = rounded(rounded(NormedHead(fp64(x), eps).n) * fp64(weight));
      EXPECT_TRUE(near(got, turned(y, c, s, 1), kTwice)) << i;
      if (copy.defined()) {
        EXPECT_TRUE(seen_by_cpu(copy).equal(seen_by_cpu(x)));
      }
    };
    expect(to.q_TND, from.q_TND, q_weight, kept.q_TND);
    if (!alone) expect(to.k_TGD, from.k_TGD, k_weight, kept.k_TGD);
    if (!alone && to.v_TGD.defined()) {
      EXPECT_TRUE(seen_by_cpu(to.v_TGD).equal(seen_by_cpu(from.v_TGD)));
    }
    if (HasFailure()) return;
  }
}

TEST(Fused, GradientsGoBackThroughRopeAndNorms) {
  Rng rng(8);
  const double eps = 1e-6;
  for (int i = 0; i < kShapes; ++i) {
    const RandomHeads r(rng, 1 + static_cast<std::int64_t>(rng.below(i % 10 == 0 ? 90 : 9)),
                        i % 20 == 1 ? 32 : 9);
    const at::Tensor q_weight = random_bf16(rng, {r.dim}), k_weight = random_bf16(rng, {r.dim});
    const Heads before = r.split(r.qkv);
    if (i % 7 == 0) seen_by_cpu(before.k_TGD)[0].zero_();
    const Heads dy{random_bf16(rng, {r.rows, r.heads, r.dim}),
                   random_bf16(rng, {r.rows, r.groups, r.dim}),
                   random_bf16(rng, {r.rows, r.groups, r.dim})};
    const Heads d = r.split(at::empty_like(r.qkv));
    const auto ones = [&] { return at::ones({r.dim}, at::kFloat).to(kPretended); };
    const at::Tensor dq_weight = ones(), dk_weight = ones();
    normed_rope_backward(dy, {r.cos, r.sin}, {q_weight, k_weight, eps}, before, d,
                         {dq_weight, dk_weight});
    const auto expect = [&](const at::Tensor& got, const at::Tensor& sum, const at::Tensor& x,
                            const at::Tensor& gradient, const at::Tensor& weight) {
      const NormedHead norm(fp64(x), eps);
      const at::Tensor back = turned(fp64(gradient), fp64(r.cos), fp64(r.sin), -1);
      const at::Tensor g = back * fp64(weight);
      EXPECT_TRUE(near(got, norm.rstd * (g - norm.n * (g * norm.n).mean(2, true)), kOnce)) << i;
      EXPECT_TRUE(near(sum, (back * rounded(norm.n)).sum({0, 1}) + 1, kOnce)) << i;
    };
    expect(d.q_TND, dq_weight, before.q_TND, dy.q_TND, q_weight);
    expect(d.k_TGD, dk_weight, before.k_TGD, dy.k_TGD, k_weight);
    EXPECT_TRUE(seen_by_cpu(d.v_TGD).equal(seen_by_cpu(dy.v_TGD)));
    if (HasFailure()) return;
  }
}

TEST(Fused, OtherTensorsAreLeftToLibtorch) {
  Rng rng(5);
  const at::Tensor rows = random_bf16(rng, {4, 16}), weight = random_bf16(rng, {16});
  EXPECT_TRUE(takes_rows(rows));
  EXPECT_TRUE(takes_norm(rows, weight));
  EXPECT_FALSE(takes_rows(random_bf16(rng, {4, 12})));                       // no multiple of 8
  EXPECT_FALSE(takes_rows(rows.narrow(1, 0, 8)));                            // not contiguous
  EXPECT_FALSE(takes_rows(rows.view({-1}).narrow(0, 4, 48).view({3, 16})));  // 8 bytes off
  EXPECT_FALSE(takes_rows(rows.to(at::kFloat)));
  EXPECT_FALSE(takes_rows(seen_by_cpu(rows)));  // the CPU has none
  const at::Tensor wide = at::empty({1, 8200}, rows.options());
  EXPECT_TRUE(takes_rows(wide));
  EXPECT_FALSE(takes_norm(wide, at::empty({8200}, rows.options())));
  const at::Tensor heads = at::empty({2, 2, 8}, rows.options()),
                   angles = at::empty({2, 1, 4}, rows.options());
  EXPECT_FALSE(takes_heads({heads, heads, {}}, {angles, angles}, {heads, heads, {}}));
  const auto takes_width = [&](std::int64_t dim) {
    const at::Tensor head_weight = at::empty({dim}, rows.options());
    return takes_normed_heads({at::empty({2, 2, dim}, rows.options()), {}, {}},
                              {head_weight, head_weight, 1e-6});
  };
  EXPECT_TRUE(takes_width(512));
  EXPECT_FALSE(takes_width(528));  // a head has more vectors than a warp has lanes
  EXPECT_FALSE(takes_width(8));
}

TEST(Fused, LaunchersRefuseWhatTheirKernelsDoNotKnow) {
  Rng rng(6);
  const at::Tensor x = random_bf16(rng, {64});
  Bf16* const data = static_cast<Bf16*>(x.data_ptr());
  EXPECT_EQ(loop_launchers().swiglu({}, data, data, 1, 8), 0);
  EXPECT_EQ(loop_launchers().swiglu({}, data, data, 1, 12), 1);
  EXPECT_EQ(loop_launchers().swiglu({}, data + 1, data, 1, 8), 1);
  EXPECT_LT(loop_launchers().rms_norm_blocks(0, 8200), 0);
}

}  // namespace
}  // namespace slimpack::fused
