#include "slimpack/packflow/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

namespace slimpack {

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
    gradient.add_(at::mm(dy_TO.t(), x_TI));
  }
  if (bias_O.defined()) accumulate_bias_gradient(dy_TO, bias_O);
}

}  // namespace slimpack
