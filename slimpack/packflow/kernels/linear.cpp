#include "slimpack/packflow/kernels/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include <algorithm>

#include "slimpack/cost/layer_memory.h"
#include "slimpack/packflow/device/optional_operator.h"

namespace slimpack {
namespace {

/// Adds dyᵀ x to a gradient that is kept in a wider type than they are. Their product would be
/// rounded to that type if it stood by itself, once for every MicroPack.
void add_widened_product(const at::Tensor& dy_TO, const at::Tensor& x_TI, at::Tensor& gradient_OI) {
  static const OptionalOperator adds_widened("addmm", "dtype_out");
  if (adds_widened.runs_on(dy_TO)) {
    at::addmm_out(gradient_OI, gradient_OI, dy_TO.t(), x_TI, gradient_OI.scalar_type());
    return;
  }
  const auto type = gradient_OI.scalar_type();
  const std::int64_t block = kWidenedRows.count();
  for (std::int64_t row = 0; row < dy_TO.size(0); row += block) {
    const std::int64_t count = std::min(block, dy_TO.size(0) - row);
    gradient_OI.addmm_(dy_TO.narrow(0, row, count).to(type).t(),
                       x_TI.narrow(0, row, count).to(type));
  }
}

}  // namespace

at::Tensor linear(const at::Tensor& x_TI, const Parameter& weight_OI, const Parameter& bias_O) {
  if (bias_O.defined()) return at::addmm(bias_O.value, x_TI, weight_OI.value.t());
  return at::mm(x_TI, weight_OI.value.t());
}

at::Tensor linear_onto(const at::Tensor& residual_TO, const at::Tensor& x_TI,
                       const Parameter& weight_OI, const Parameter& bias_O) {
  at::Tensor y = at::addmm(residual_TO, x_TI, weight_OI.value.t());
  if (bias_O.defined()) y.add_(bias_O.value);
  return y;
}

at::Tensor linear_input_gradient(const at::Tensor& dy_TO, const Parameter& weight_OI) {
  return at::mm(dy_TO, weight_OI.value);
}

void accumulate_bias_gradient(const at::Tensor& dy_TO, Parameter& bias_O) {
  bias_O.gradient.add_(dy_TO.sum(0, false, bias_O.gradient.scalar_type()));
}

void accumulate_linear_gradient(const at::Tensor& dy_TO, const at::Tensor& x_TI,
                                Parameter& weight_OI, Parameter& bias_O) {
  at::Tensor& gradient = weight_OI.gradient;
  if (gradient.scalar_type() == dy_TO.scalar_type()) {
    gradient.addmm_(dy_TO.t(), x_TI);
  } else {
    add_widened_product(dy_TO, x_TI, gradient);
  }
  if (bias_O.defined()) accumulate_bias_gradient(dy_TO, bias_O);
}

}  // namespace slimpack
