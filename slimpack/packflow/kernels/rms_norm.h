// RMSNorm over the last dimension, forward and backward (Zhang, Sennrich 2019), in the accumulate
// type with Hugging Face's casts: the normalised value is rounded before the weight multiplies it.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack {

/// x / rms(x) and 1 / rms(x); what backward needs of the forward pass.
struct Normalized {
  at::Tensor n;     ///< shape of x, compute type
  at::Tensor rstd;  ///< last dimension 1, accumulate type
};

[[nodiscard]] Normalized rms_normalize(const at::Tensor& x, double eps);

/// n ⊙ weight.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps);

/// dx; adds Σ dy ⊙ n to the weight's gradient.
///   dx = rstd (g − n · mean(g ⊙ n)), g = dy ⊙ weight
[[nodiscard]] at::Tensor rms_norm_backward(const at::Tensor& dy, const Normalized& x,
                                           Parameter& weight);

}  // namespace slimpack
