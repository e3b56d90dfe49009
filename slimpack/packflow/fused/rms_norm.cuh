// RMSNorm: y = n ⊙ weight, n = x · rstd, rstd = 1 / √(mean(x²) + eps).
//
// Sums are fp32, in an order that depends on sizes and on the number of blocks alone.
#pragma once

#include "slimpack/packflow/fused/block.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

struct Add {
  SLIMPACK_DEVICE float operator()(float a, float b) const { return a + b; }
  SLIMPACK_DEVICE Float8 operator()(Float8 a, const Float8& b) const {
    for (int e = 0; e < 8; ++e) a.value[e] += b.value[e];
    return a;
  }
};

SLIMPACK_DEVICE float rstd_of(float squares, int width, float eps) {
  return 1 / sqrtf(squares / width + eps);
}

/// 4 bytes an element.
template <int kKept>
struct RmsNorm {
  const Bf16 *x_TH, *weight_H;
  Bf16* y_TH;
  int width;  ///< H, at most 8 · kKept · lanes
  float eps;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const std::int64_t begin = block.index() * width;
    Own<Bf16x8, B::kLanes, kKept> xs(Bf16x8{});
    Own<float, B::kLanes> squares(0);
    block.template each_of<kKept>(
        width / 8, [&](int i, Bf16x8& x) { x = load8(x_TH + begin, i); }, xs);
    block.template each_of<kKept>(
        width / 8,
        [&](int, const Bf16x8& x, float& sum) {
          const Float8 v = widened(x);
          for (int e = 0; e < 8; ++e) sum += v.value[e] * v.value[e];
        },
        xs, squares);
    const float rstd = rstd_of(block.merged(squares, Add()), width, eps);
    block.template each_of<kKept>(
        width / 8,
        [&](int i, const Bf16x8& x) {
          const Float8 v = widened(x), w = widened(load8(weight_H, i));
          Float8 y;
          // Hugging Face rounds n before the weight multiplies it.
          for (int e = 0; e < 8; ++e) y.value[e] = rounded(v.value[e] * rstd) * w.value[e];
          store8(y_TH + begin, i, rounded(y));
        },
        xs);
  }
};

/// Σ x² and Σ dy ⊙ weight ⊙ x of a row.
struct RowSums {
  float squares, products;
};

struct AddRowSums {
  SLIMPACK_DEVICE RowSums operator()(const RowSums& a, const RowSums& b) const {
    return {a.squares + b.squares, a.products + b.products};
  }
};

/// dx = rstd (g − n · mean(g ⊙ n)) + residual, g = dy ⊙ weight; y again, for the gradient of the
/// weight that follows the norm; and Σ dy ⊙ n over this block's rows, which are every count-th. Up
/// to 10 bytes an element. 1 / rms is computed again: the row is in registers anyway.
template <int kKept>
struct RmsNormBackward {
  RmsNormBackwardArguments arguments;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const RmsNormBackwardArguments& a = arguments;
    const int width = static_cast<int>(a.width), vectors = width / 8;
    Own<Bf16x8, B::kLanes, kKept> weights(Bf16x8{});
    Own<Float8, B::kLanes, kKept> dweights(Float8{});
    block.template each_of<kKept>(
        vectors, [&](int i, Bf16x8& w) { w = load8(a.weight_H, i); }, weights);
    for (std::int64_t row = block.index(); row < a.rows; row += block.count()) {
      const std::int64_t begin = row * width;
      Own<Bf16x8, B::kLanes, kKept> dys(Bf16x8{}), xs(Bf16x8{}), residuals(Bf16x8{});
      Own<RowSums, B::kLanes> sums(RowSums{0, 0});
      block.template each_of<kKept>(
          vectors,
          [&](int i, Bf16x8& dy, Bf16x8& x, Bf16x8& residual) {
            dy = load8(a.dy_TH + begin, i);
            x = load8(a.x_TH + begin, i);
            if (a.residual_TH != nullptr) residual = load8(a.residual_TH + begin, i);
          },
          dys, xs, residuals);
      block.template each_of<kKept>(
          vectors,
          [&](int, const Bf16x8& dy, const Bf16x8& x, const Bf16x8& w, RowSums& sum) {
            const Float8 d = widened(dy), v = widened(x), weight = widened(w);
            for (int e = 0; e < 8; ++e) {
              sum.squares += v.value[e] * v.value[e];
              sum.products += d.value[e] * weight.value[e] * v.value[e];
            }
          },
          dys, xs, weights, sums);
      const RowSums sum = block.merged(sums, AddRowSums());
      const float rstd = rstd_of(sum.squares, width, a.eps), mean = sum.products * rstd / width;
      block.template each_of<kKept>(
          vectors,
          [&](int i, const Bf16x8& dy, const Bf16x8& x, const Bf16x8& residual, const Bf16x8& w,
              Float8& dweight) {
            const Float8 d = widened(dy), v = widened(x), weight = widened(w);
            Float8 dx = widened(residual), y;
            for (int e = 0; e < 8; ++e) {
              const float n = v.value[e] * rstd, rounded_n = rounded(n);
              dx.value[e] += rstd * (d.value[e] * weight.value[e] - n * mean);
              y.value[e] = rounded_n * weight.value[e];
              dweight.value[e] += d.value[e] * rounded_n;
            }
            store8(a.dx_TH + begin, i, rounded(dx));
            if (a.y_TH != nullptr) store8(a.y_TH + begin, i, rounded(y));
          },
          dys, xs, residuals, weights, dweights);
    }
    block.template each_of<kKept>(
        vectors,
        [&](int i, const Float8& dweight) {
          store8(a.dweight_BH + block.index() * width, i, dweight);
        },
        dweights);
  }
};

/// Adds the blocks' sums to another. A block has eight columns.
struct AddColumns {
  const float* addends_BH;
  float* sum_H;
  int blocks, width;  ///< B, H

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    Own<Float8, B::kLanes> sums(Float8{});
    block.each(
        blocks,
        [&](int b, Float8& sum) {
          sum = Add()(sum, load8(addends_BH + std::int64_t{b} * width, block.index()));
        },
        sums);
    const Float8 sum = block.merged(sums, Add());
    block.once([&] { store8(sum_H, block.index(), Add()(load8(sum_H, block.index()), sum)); });
  }
};

}  // namespace slimpack::fused::inline SLIMPACK_WAY
