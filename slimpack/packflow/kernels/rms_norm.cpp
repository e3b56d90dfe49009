#include "slimpack/packflow/kernels/rms_norm.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/sum.h>

#include <optional>
#include <tuple>
#include <utility>

#include "slimpack/packflow/device/optional_operator.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/fused/fused.h"

namespace slimpack {
namespace {

/// Whether one kernel normalises, and one goes back. Elsewhere libtorch composes the forward of
/// other operators and has no kernel that goes back.
bool has_fused_norm(const at::Tensor& x) {
  static const OptionalOperator backward("_fused_rms_norm_backward");
  return backward.runs_on(x);
}

/// n of an x whose 1 / rms is known.
at::Tensor scaled(const at::Tensor& x, const at::Tensor& rstd) {
  return at::mul(x, rstd).to(x.scalar_type());
}

/// The fused kernel would round the weight's gradient to the weight's type.
at::Tensor fused_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                          Parameter& weight) {
  const std::int64_t width = x.size(-1);
  const at::Tensor dy_n = at::mul(dy, rstd).mul_(x);  // in the type of rstd
  weight.gradient.add_(dy_n.reshape({-1, width}).sum(0));
  return std::get<0>(
      at::_fused_rms_norm_backward(dy, x, {width}, rstd, weight.value, {true, false}));
}

}  // namespace

Normalized rms_normalize(const at::Tensor& x, double eps) {
  if (has_fused_norm(x)) {
    auto [n, rstd] = at::_fused_rms_norm(x, {x.size(-1)}, std::nullopt, eps);
    return {std::move(n), std::move(rstd)};
  }
  const auto accumulate = accumulate_type(x);
  at::Tensor rstd = at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true, accumulate);
  rstd.square_().div_(static_cast<double>(x.size(-1))).add_(eps).rsqrt_();
  return {scaled(x, rstd), rstd};
}

// The fused kernel reads x and writes n, like a product; but it vectorises where a product of two
// types does not.
Normalized rms_normalize(const at::Tensor& x, double eps, const at::Tensor& rstd) {
  return has_fused_norm(x) ? rms_normalize(x, eps) : Normalized{scaled(x, rstd), rstd};
}

at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps) {
  if (fused::takes_norm(x, weight.value)) return fused::rms_norm(x, weight.value, eps);
  return rms_normalize(x, eps).n.mul_(weight.value);
}

at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const Normalized& norm,
                             Parameter& weight) {
  if (has_fused_norm(x)) return fused_backward(dy, x, norm.rstd, weight);
  const at::Tensor n = norm.n.defined() ? norm.n : scaled(x, norm.rstd);
  const std::int64_t width = dy.size(-1);
  const auto accumulate = accumulate_type(dy);
  const at::Tensor dy_n = at::mul(dy.to(accumulate), n);
  weight.gradient.add_(dy_n.reshape({-1, width}).sum(0));
  const at::Tensor mean = at::mv(dy_n.reshape({-1, width}), weight.value.to(accumulate))
                              .div_(static_cast<double>(width));
  at::Tensor dx = at::mul(dy.to(accumulate), weight.value);
  dx.addcmul_(n.to(accumulate), mean.view(norm.rstd.sizes()), -1.0).mul_(norm.rstd);
  return dx.to(dy.scalar_type());
}

}  // namespace slimpack
