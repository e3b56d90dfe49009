#include "slimpack/packflow/head.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "slimpack/cost/memory_model.h"
#include "slimpack/packflow/linear.h"
#include "slimpack/packflow/rms_norm.h"

namespace slimpack {
namespace {

/// Turns logits into Σ loss and, in place, into the gradient of Σ loss / step_targets.
at::Tensor cross_entropy_backward_(at::Tensor& logits_TV, const at::Tensor& targets_T,
                                   std::int64_t step_targets) {
  const at::Tensor valid_T1 = targets_T.ne(kNoTarget).to(logits_TV.scalar_type()).unsqueeze(1);
  const at::Tensor targets_T1 = targets_T.clamp_min(0).unsqueeze(1);
  const at::Tensor lse_T1 = at::logsumexp(logits_TV, {1}, /*keepdim=*/true);
  const at::Tensor loss_T1 = at::sub(lse_T1, at::gather(logits_TV, 1, targets_T1)).mul_(valid_T1);
  logits_TV.sub_(lse_T1).exp_();
  logits_TV.scatter_add_(1, targets_T1, at::ones_like(lse_T1).neg_());
  logits_TV.mul_(valid_T1.div(static_cast<double>(std::max<std::int64_t>(step_targets, 1))));
  return loss_T1.sum(at::kDouble);
}

}  // namespace

HeadResult head_backward(const ModelShape& shape, Parameter& norm_H, Parameter& head_VH,
                         const at::Tensor& x_TH, const at::Tensor& targets_T,
                         std::int64_t step_targets) {
  HeadResult result{at::empty_like(x_TH), at::zeros({}, at::kDouble)};
  Parameter no_bias;
  const std::int64_t rows = x_TH.size(0);
  const std::int64_t block = head_block(shape).count();
  for (std::int64_t row = 0; row < rows; row += block) {
    const std::int64_t count = std::min(block, rows - row);
    const Normalized norm = rms_normalize(x_TH.narrow(0, row, count), shape.rms_norm_eps);
    const at::Tensor y_TH = at::mul(norm.n, norm_H.value);
    // Hugging Face rounds logits to the compute type before the loss widens them.
    at::Tensor logits_TV = linear(y_TH, head_VH, no_bias).to(norm.rstd.scalar_type());
    result.loss_sum.add_(
        cross_entropy_backward_(logits_TV, targets_T.narrow(0, row, count), step_targets));
    const at::Tensor dlogits_TV = logits_TV.to(x_TH.scalar_type());
    accumulate_linear_gradient(dlogits_TV, y_TH, head_VH, no_bias);
    result.dx_TH.narrow(0, row, count)
        .copy_(rms_norm_backward(linear_input_gradient(dlogits_TV, head_VH), norm, norm_H));
  }
  return result;
}

}  // namespace slimpack
