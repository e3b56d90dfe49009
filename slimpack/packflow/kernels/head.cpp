#include "slimpack/packflow/kernels/head.h"

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
#include <utility>

#include "slimpack/cost/memory_model.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"

namespace slimpack {
namespace {

std::int64_t block_of(const ModelShape& shape, const at::Tensor& x_TH) {
  return head_block(shape, x_TH.is_cpu() ? DeviceKind::kCpu : DeviceKind::kCuda).count();
}

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

/// A block of rows on its way from logits to the loss's gradient.
struct BlockLogits {
  at::Tensor logits_TV;  ///< of the rank's columns
  Targets targets;
  at::Tensor lse_T1;  ///< over all columns
};

/// Adds the rows' loss to `sum`. `group` as for head_loss().
BlockLogits block_logits(const at::Tensor& y_TH, const Parameter& head_VH,
                         const at::Tensor& targets_T, Collective* group, at::Tensor& sum) {
  const Parameter no_bias;
  // Hugging Face rounds logits to the compute type before the loss widens them.
  at::Tensor logits_TV = linear(y_TH, head_VH, no_bias).to(accumulate_type(y_TH));
  const std::int64_t from = group == nullptr ? 0 : head_VH.parts.front().piece.from;
  Targets targets(targets_T, from, logits_TV);
  at::Tensor lse_T1 = at::logsumexp(logits_TV, {1}, /*keepdim=*/true);
  at::Tensor target_T1 = targets.logits(logits_TV);
  if (group != nullptr) {
    // Those of the own columns, then of all.
    const at::Tensor all_TR2 =
        at::stack(group->gathering().all_gather(at::cat({lse_T1, target_T1}, 1)), 1);
    lse_T1 = at::logsumexp(all_TR2.select(2, 0), {1}, /*keepdim=*/true);
    target_T1 = all_TR2.select(2, 1).sum(1, /*keepdim=*/true);
  }
  sum.add_(at::sub(lse_T1, target_T1).mul_(targets.valid_T1).sum(at::kDouble));
  return {std::move(logits_TV), std::move(targets), std::move(lse_T1)};
}

/// Turns the logits into the gradient of Σ loss / step_targets, in place.
void loss_gradient_(BlockLogits& block, std::int64_t step_targets) {
  const Targets& targets = block.targets;
  block.logits_TV.sub_(block.lse_T1).exp_();
  block.logits_TV.scatter_add_(1, targets.columns_T1, targets.here_T1.neg());
  block.logits_TV.mul_(
      targets.valid_T1.div(static_cast<double>(std::max<std::int64_t>(step_targets, 1))));
}

}  // namespace

HeadResult head_backward(const ModelShape& shape, Parameter& norm_H, Parameter& head_VH,
                         const at::Tensor& x_TH, const at::Tensor& targets_T,
                         std::int64_t step_targets) {
  HeadResult result{at::empty_like(x_TH), at::zeros({}, x_TH.options().dtype(at::kDouble))};
  Parameter no_bias;
  const std::int64_t rows = x_TH.size(0);
  const std::int64_t block = block_of(shape, x_TH);
  for (std::int64_t row = 0; row < rows; row += block) {
    const std::int64_t count = std::min(block, rows - row);
    const at::Tensor x = x_TH.narrow(0, row, count);
    const Normalized norm = rms_normalize(x, shape.rms_norm_eps);
    const at::Tensor y_TH = at::mul(norm.n, norm_H.value);
    BlockLogits logits =
        block_logits(y_TH, head_VH, targets_T.narrow(0, row, count), nullptr, result.loss_sum);
    loss_gradient_(logits, step_targets);
    const at::Tensor dlogits_TV = logits.logits_TV.to(x_TH.scalar_type());
    accumulate_linear_gradient(dlogits_TV, y_TH, head_VH, no_bias);
    result.dx_TH.narrow(0, row, count)
        .copy_(rms_norm_backward(linear_input_gradient(dlogits_TV, head_VH), x, norm, norm_H));
  }
  return result;
}

HeadResult parallel_head_backward(const ModelShape& shape, Parameter& norm_H, Parameter& head_VH,
                                  const at::Tensor& x_TH, const at::Tensor& targets_T,
                                  std::int64_t step_targets, const TensorRows& rows,
                                  Collective& group) {
  const bool has_rows = norm_H.defined();
  Normalized norm;
  if (has_rows) norm = rms_normalize(x_TH, shape.rms_norm_eps);
  at::Tensor y_TH = rows.gathered(has_rows ? at::mul(norm.n, norm_H.value) : x_TH);
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  Parameter no_bias;
  const std::int64_t block = block_of(shape, x_TH);
  for (std::int64_t row = 0; row < y_TH.size(0); row += block) {
    const std::int64_t count = std::min(block, y_TH.size(0) - row);
    const at::Tensor y = y_TH.narrow(0, row, count);
    BlockLogits logits = block_logits(y, head_VH, targets_T.narrow(0, row, count), &group, sum);
    loss_gradient_(logits, step_targets);
    const at::Tensor dlogits_TV = logits.logits_TV.to(x_TH.scalar_type());
    accumulate_linear_gradient(dlogits_TV, y, head_VH, no_bias);
    y.copy_(linear_input_gradient(dlogits_TV, head_VH));  // nobody reads these rows again
  }
  y_TH = rows.scattered(y_TH);
  return {has_rows ? rms_norm_backward(y_TH, x_TH, norm, norm_H) : y_TH, sum};
}

at::Tensor head_loss(const ModelShape& shape, const Parameter& norm_H, const Parameter& head_VH,
                     const at::Tensor& x_TH, const at::Tensor& targets_T, const TensorRows& rows,
                     Collective* group) {
  const at::Tensor y_TH =
      rows.gathered(norm_H.defined() ? rms_norm(x_TH, norm_H, shape.rms_norm_eps) : x_TH);
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  const std::int64_t block = block_of(shape, x_TH);
  for (std::int64_t row = 0; row < y_TH.size(0); row += block) {
    const std::int64_t count = std::min(block, y_TH.size(0) - row);
    static_cast<void>(block_logits(y_TH.narrow(0, row, count), head_VH,
                                   targets_T.narrow(0, row, count), group, sum));
  }
  return sum;
}

}  // namespace slimpack
