// RMSNorm over the last dimension, forward and backward (Zhang, Sennrich 2019), in the accumulate
// type with Hugging Face's casts: the normalised value is rounded before the weight multiplies it.
// So libtorch's fused kernel, on devices that have it, normalises without the weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack {

/// x / rms(x) and 1 / rms(x).
struct Normalized {
  at::Tensor n;     ///< shape of x, compute type; undefined where only 1 / rms was kept
  at::Tensor rstd;  ///< last dimension 1, accumulate type
};

[[nodiscard]] Normalized rms_normalize(const at::Tensor& x, double eps);

/// Takes an x whose 1 / rms is known; gives the same bits.
[[nodiscard]] Normalized rms_normalize(const at::Tensor& x, double eps, const at::Tensor& rstd);

/// n ⊙ weight.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps);

/// dx; adds Σ dy ⊙ n to the weight's gradient, without rounding the products.
///   dx = rstd (g − n · mean(g ⊙ n)), g = dy ⊙ weight
/// `x` is the norm's input. A fused kernel reads it, and n is computed from it where it is
/// undefined.
[[nodiscard]] at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                           const Normalized& norm, Parameter& weight);

}  // namespace slimpack
