#include "slimpack/packflow/head.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "slimpack/cost/memory_model.h"
#include "slimpack/packflow/linear.h"
#include "slimpack/packflow/rms_norm.h"

namespace slimpack {
namespace {

/// Targets of a block of rows among the logits that the rank has.
struct Targets {
  at::Tensor columns_T1;  ///< any one where the target is not here
  at::Tensor here_T1;     ///< 1 or 0
  at::Tensor valid_T1;    ///< whether the row has a target at all: 1 or 0

  Targets(const at::Tensor& targets_T, std::int64_t from, const at::Tensor& logits_TV) {
    const auto type = logits_TV.scalar_type();
    const at::Tensor shifted_T1 = targets_T.sub(from).unsqueeze(1);
    columns_T1 = shifted_T1.clamp(0, logits_TV.size(1) - 1);
    here_T1 = columns_T1.eq(shifted_T1).to(type);
    valid_T1 = targets_T.ne(kNoTarget).to(type).unsqueeze(1);
  }

  /// The target's logit, 0 where it is not here.
  [[nodiscard]] at::Tensor logits(const at::Tensor& logits_TV) const {
    return at::gather(logits_TV, 1, columns_T1).mul_(here_T1);
  }
};

/// Turns logits into the gradient of Σ loss / step_targets, in place; `lse_T1` is over all logits.
void loss_gradient_(at::Tensor& logits_TV, const Targets& targets, const at::Tensor& lse_T1,
                    std::int64_t step_targets) {
  logits_TV.sub_(lse_T1).exp_();
  logits_TV.scatter_add_(1, targets.columns_T1, targets.here_T1.neg());
  logits_TV.mul_(
      targets.valid_T1.div(static_cast<double>(std::max<std::int64_t>(step_targets, 1))));
}

at::Tensor loss_sum(const at::Tensor& lse_T1, const at::Tensor& target_T1, const Targets& targets) {
  return at::sub(lse_T1, target_T1).mul_(targets.valid_T1).sum(at::kDouble);
}

}  // namespace

HeadResult head_backward(const ModelShape& shape, Parameter& norm_H, Parameter& head_VH,
                         const at::Tensor& x_TH, const at::Tensor& targets_T,
                         std::int64_t step_targets) {
  HeadResult result{at::empty_like(x_TH), at::zeros({}, x_TH.options().dtype(at::kDouble))};
  Parameter no_bias;
  const std::int64_t rows = x_TH.size(0);
  const std::int64_t block = head_block(shape).count();
  for (std::int64_t row = 0; row < rows; row += block) {
    const std::int64_t count = std::min(block, rows - row);
    const Normalized norm = rms_normalize(x_TH.narrow(0, row, count), shape.rms_norm_eps);
    const at::Tensor y_TH = at::mul(norm.n, norm_H.value);
    // Hugging Face rounds logits to the compute type before the loss widens them.
    at::Tensor logits_TV = linear(y_TH, head_VH, no_bias).to(norm.rstd.scalar_type());
    const Targets targets(targets_T.narrow(0, row, count), 0, logits_TV);
    const at::Tensor lse_T1 = at::logsumexp(logits_TV, {1}, /*keepdim=*/true);
    result.loss_sum.add_(loss_sum(lse_T1, targets.logits(logits_TV), targets));
    loss_gradient_(logits_TV, targets, lse_T1, step_targets);
    const at::Tensor dlogits_TV = logits_TV.to(x_TH.scalar_type());
    accumulate_linear_gradient(dlogits_TV, y_TH, head_VH, no_bias);
    result.dx_TH.narrow(0, row, count)
        .copy_(rms_norm_backward(linear_input_gradient(dlogits_TV, head_VH), norm, norm_H));
  }
  return result;
}

HeadResult parallel_head_backward(const ModelShape& shape, Parameter& norm_H, Parameter& head_VH,
                                  const at::Tensor& x_TH, const at::Tensor& targets_T,
                                  std::int64_t step_targets, const TensorRows& rows,
                                  Collective& group) {
  const Normalized norm = rms_normalize(x_TH, shape.rms_norm_eps);
  at::Tensor y_TH = rows.gathered(at::mul(norm.n, norm_H.value));
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  Parameter no_bias;
  const std::int64_t block = head_block(shape).count();
  for (std::int64_t row = 0; row < y_TH.size(0); row += block) {
    const std::int64_t count = std::min(block, y_TH.size(0) - row);
    const at::Tensor y = y_TH.narrow(0, row, count);
    at::Tensor logits_TV = linear(y, head_VH, no_bias).to(norm.rstd.scalar_type());
    const Targets targets(targets_T.narrow(0, row, count), head_VH.parts.front().piece.from,
                          logits_TV);
    // Log-sum-exp and target logit of the own columns, then of all.
    const std::vector<at::Tensor> parts = group.all_gather(
        at::cat({at::logsumexp(logits_TV, {1}, /*keepdim=*/true), targets.logits(logits_TV)}, 1));
    const at::Tensor all_TR2 = at::stack(parts, 1);
    const at::Tensor lse_T1 = at::logsumexp(all_TR2.select(2, 0), {1}, /*keepdim=*/true);
    const at::Tensor target_T1 = all_TR2.select(2, 1).sum(1, /*keepdim=*/true);
    sum.add_(loss_sum(lse_T1, target_T1, targets));
    loss_gradient_(logits_TV, targets, lse_T1, step_targets);
    const at::Tensor dlogits_TV = logits_TV.to(x_TH.scalar_type());
    accumulate_linear_gradient(dlogits_TV, y, head_VH, no_bias);
    y.copy_(linear_input_gradient(dlogits_TV, head_VH));  // nobody reads these rows again
  }
  y_TH = rows.scattered(y_TH);
  return {rms_norm_backward(y_TH, norm, norm_H), sum};
}

}  // namespace slimpack
