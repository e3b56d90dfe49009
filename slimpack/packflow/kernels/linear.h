// Linear maps y = x Wᵀ + b and their gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack {

/// x [T, I] → [T, O]. `bias` may be undefined.
[[nodiscard]] at::Tensor linear(const at::Tensor& x_TI, const Parameter& weight_OI,
                                const Parameter& bias_O);

/// linear() plus `residual` [T, O].
[[nodiscard]] at::Tensor linear_onto(const at::Tensor& residual_TO, const at::Tensor& x_TI,
                                     const Parameter& weight_OI, const Parameter& bias_O);

/// Gradient of the input.
[[nodiscard]] at::Tensor linear_input_gradient(const at::Tensor& dy_TO, const Parameter& weight_OI);

/// Adds Σ dy to the gradient of a bias.
void accumulate_bias_gradient(const at::Tensor& dy_TO, Parameter& bias_O);

/// Adds dyᵀ x and Σ dy to the gradients of weight and bias, without rounding to a type narrower
/// than theirs on the way.
void accumulate_linear_gradient(const at::Tensor& dy_TO, const at::Tensor& x_TI,
                                Parameter& weight_OI, Parameter& bias_O);

}  // namespace slimpack
