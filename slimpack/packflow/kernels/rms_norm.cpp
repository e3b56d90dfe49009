#include "slimpack/packflow/kernels/rms_norm.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/sum.h>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {

Normalized rms_normalize(const at::Tensor& x, double eps) {
  const auto accumulate = accumulate_type(x);
  at::Tensor rstd = at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true, accumulate);
  rstd.square_().div_(static_cast<double>(x.size(-1))).add_(eps).rsqrt_();
  return {at::mul(x, rstd).to(x.scalar_type()), rstd};
}

at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps) {
  return rms_normalize(x, eps).n.mul_(weight.value);
}

at::Tensor rms_norm_backward(const at::Tensor& dy, const Normalized& x, Parameter& weight) {
  const std::int64_t width = dy.size(-1);
  const auto accumulate = accumulate_type(dy);
  const at::Tensor dy_n = at::mul(dy.to(accumulate), x.n);
  weight.gradient.add_(dy_n.reshape({-1, width}).sum(0));
  const at::Tensor mean = at::mv(dy_n.reshape({-1, width}), weight.value.to(accumulate))
                              .div_(static_cast<double>(width));
  at::Tensor dx = at::mul(dy.to(accumulate), weight.value);
  dx.addcmul_(x.n.to(accumulate), mean.view(x.rstd.sizes()), -1.0).mul_(x.rstd);
  return dx.to(dy.scalar_type());
}

}  // namespace slimpack
