#include "slimpack/packflow/kernels/vocabulary.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
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

#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/vocabulary_memory.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/linear.h"
#include "slimpack/packflow/kernels/rms_norm.h"

namespace slimpack {
namespace {

/// Rows of the matrix for tokens that the rank has, any row for the others.
struct OwnTokens {
  at::Tensor rows_T;
  at::Tensor own_T;

  OwnTokens(const Parameter& embedding_VH, const at::Tensor& tokens_T) {
    const TensorPiece& piece = embedding_VH.parts.front().piece;
    const at::Tensor shifted_T = tokens_T.sub(piece.from);
    own_T = shifted_T.ge(0).logical_and_(shifted_T.lt(piece.size));
    rows_T = shifted_T.clamp(0, piece.size - 1);
  }
};

}  // namespace

at::Tensor embed(const Parameter& embedding_VH, const at::Tensor& tokens_T,
                 const TensorRows& rows) {
  if (rows.alone()) return at::embedding(embedding_VH.value, tokens_T);
  const OwnTokens own(embedding_VH, tokens_T);
  return rows.scattered(at::embedding(embedding_VH.value, own.rows_T)
                            .mul_(own.own_T.to(embedding_VH.value.scalar_type()).unsqueeze(1)));
}

void embed_backward(Parameter& embedding_VH, const at::Tensor& tokens_T, const at::Tensor& dy_TH,
                    const TensorRows& rows) {
  at::Tensor& gradient = embedding_VH.gradient;
  if (rows.alone()) {
    gradient.index_add_(0, tokens_T, dy_TH.to(gradient.scalar_type()));
    return;
  }
  const OwnTokens own(embedding_VH, tokens_T);
  const at::Tensor all_TH = rows.gathered(dy_TH).to(gradient.scalar_type());
  gradient.index_add_(0, own.rows_T,
                      all_TH.mul_(own.own_T.to(gradient.scalar_type()).unsqueeze(1)));
}

BlockLogits::BlockLogits(at::Tensor rounded_TV, at::Tensor targets_T, std::int64_t from)
    : compute_type_(rounded_TV.scalar_type()),
      fused_(fused::takes_rows(rounded_TV)),
      logits_TV_(std::move(rounded_TV)),
      targets_T_(std::move(targets_T)),
      from_(from) {
  const auto type = accumulate_type(logits_TV_);
  if (!fused_) {
    logits_TV_ = logits_TV_.to(type);
    const at::Tensor shifted_T1 = targets_T_.sub(from).unsqueeze(1);
    columns_T1_ = shifted_T1.clamp(0, logits_TV_.size(1) - 1);
    here_T1_ = columns_T1_.eq(shifted_T1).to(type);
  }
  valid_T1_ = targets_T_.ne(kNoTarget).to(type).unsqueeze(1);
}

fused::TargetLogits BlockLogits::own() const {
  if (fused_) return fused::cross_entropy(logits_TV_, targets_T_, from_);
  at::Tensor lse_T1 = at::logsumexp(logits_TV_, {1}, /*keepdim=*/true);
  return {std::move(lse_T1), at::gather(logits_TV_, 1, columns_T1_).mul_(here_T1_)};
}

at::Tensor BlockLogits::loss(const fused::TargetLogits& all) const {
  return at::sub(all.lse_T1, all.target_T1).mul_(valid_T1_).sum(at::kDouble);
}

at::Tensor BlockLogits::take_gradient(const at::Tensor& lse_T1, std::int64_t step_targets) {
  const at::Tensor weight_T1 =
      valid_T1_.div(static_cast<double>(std::max<std::int64_t>(step_targets, 1)));
  at::Tensor logits_TV = std::exchange(logits_TV_, at::Tensor());
  if (fused_) {
    fused::cross_entropy_backward(logits_TV, targets_T_, from_, lse_T1, weight_T1);
    return logits_TV;
  }
  logits_TV.sub_(lse_T1).exp_();
  logits_TV.scatter_add_(1, columns_T1_, here_T1_.neg());
  logits_TV.mul_(weight_T1);
  return logits_TV.to(compute_type_);
}

std::int64_t logit_block(std::int64_t vocab_size, const at::Tensor& x_TH) {
  if (fused::are_there_for(x_TH) && fused_head_takes(vocab_size))
    return fused_head_block(vocab_size).count();
  return head_block(vocab_size, x_TH.is_cpu() ? DeviceKind::kCpu : DeviceKind::kCuda).count();
}

namespace {

/// A block of rows on its way from logits to the loss's gradient.
struct BlockLoss {
  BlockLogits logits;
  at::Tensor lse_T1;  ///< over all columns
};

/// Adds the rows' loss to `sum`. `group` as for head_loss().
BlockLoss block_loss(const at::Tensor& y_TH, const Parameter& head_VH, const at::Tensor& targets_T,
                     Collective* group, at::Tensor& sum) {
  const Parameter no_bias;
  const std::int64_t from = group == nullptr ? 0 : head_VH.parts.front().piece.from;
  BlockLogits logits(linear(y_TH, head_VH, no_bias), targets_T, from);
  fused::TargetLogits all = logits.own();
  if (group != nullptr) {
    // Each rank has these numbers of its own columns. The ranks gather them and combine them to
    // those of all columns.
    const at::Tensor all_TR2 =
        at::stack(group->gathering().all_gather(at::cat({all.lse_T1, all.target_T1}, 1)), 1);
    all.lse_T1 = at::logsumexp(all_TR2.select(2, 0), {1}, /*keepdim=*/true);
    all.target_T1 = all_TR2.select(2, 1).sum(1, /*keepdim=*/true);
  }
  sum.add_(logits.loss(all));
  return {std::move(logits), std::move(all.lse_T1)};
}

/// The gradient of the rows' logits. Adds the head's gradient, and the rows' loss to `sum`. `group`
/// as for head_loss().
at::Tensor logits_backward(const at::Tensor& y_TH, Parameter& head_VH, const at::Tensor& targets_T,
                           std::int64_t step_targets, Collective* group, at::Tensor& sum) {
  Parameter no_bias;
  BlockLoss loss = block_loss(y_TH, head_VH, targets_T, group, sum);
  at::Tensor dlogits_TV = loss.logits.take_gradient(loss.lse_T1, step_targets);
  accumulate_linear_gradient(dlogits_TV, y_TH, head_VH, no_bias);
  return dlogits_TV;
}

/// Rows of a block: input, its gradient, which is written, and targets.
struct BlockRows {
  at::Tensor x_TH, dx_TH, targets_T;
};

void block_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                    const BlockRows& rows, std::int64_t step_targets, at::Tensor& sum) {
  const Normalized norm = rms_normalize(rows.x_TH, shape.rms_norm_eps);
  const at::Tensor y_TH = at::mul(norm.n, norm_H.value);
  const at::Tensor dlogits_TV =
      logits_backward(y_TH, head_VH, rows.targets_T, step_targets, nullptr, sum);
  rows.dx_TH.copy_(
      rms_norm_backward(linear_input_gradient(dlogits_TV, head_VH), rows.x_TH, norm, norm_H));
}

/// Replaces block_backward where a kernel computes the norm's backward in place.
void fused_block(const Decoder& shape, Parameter& norm_H, Parameter& head_VH, BlockRows rows,
                 std::int64_t step_targets, at::Tensor& sum) {
  {
    const at::Tensor y_TH = rms_norm(rows.x_TH, norm_H, shape.rms_norm_eps);
    const at::Tensor dlogits_TV =
        logits_backward(y_TH, head_VH, rows.targets_T, step_targets, nullptr, sum);
    at::mm_out(rows.dx_TH, dlogits_TV, head_VH.value);
  }
  fused::rms_norm_backward(rows.dx_TH, {rows.x_TH, norm_H.value, {}, shape.rms_norm_eps}, {},
                           norm_H.gradient);
}

}  // namespace

HeadResult head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                         const at::Tensor& x_TH, const at::Tensor& targets_T,
                         std::int64_t step_targets) {
  HeadResult result{at::empty_like(x_TH), at::zeros({}, x_TH.options().dtype(at::kDouble))};
  const std::int64_t rows = x_TH.size(0);
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  for (std::int64_t row = 0; row < rows; row += block) {
    const std::int64_t count = std::min(block, rows - row);
    const at::Tensor x = x_TH.narrow(0, row, count), dx = result.dx_TH.narrow(0, row, count);
    const at::Tensor targets = targets_T.narrow(0, row, count);
    if (fused::takes_norm(x, norm_H.value))
      fused_block(shape, norm_H, head_VH, {x, dx, targets}, step_targets, result.loss_sum);
    else
      block_backward(shape, norm_H, head_VH, {x, dx, targets}, step_targets, result.loss_sum);
  }
  return result;
}

HeadResult parallel_head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                                  const at::Tensor& x_TH, const at::Tensor& targets_T,
                                  std::int64_t step_targets, const TensorRows& rows,
                                  Collective& group) {
  const bool has_rows = norm_H.defined();
  const bool joint = has_rows && fused::takes_norm(x_TH, norm_H.value);
  Normalized norm;
  if (has_rows && !joint) norm = rms_normalize(x_TH, shape.rms_norm_eps);
  at::Tensor y_TH = rows.gathered(!has_rows ? x_TH
                                  : joint   ? rms_norm(x_TH, norm_H, shape.rms_norm_eps)
                                            : at::mul(norm.n, norm_H.value));
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  for (std::int64_t row = 0; row < y_TH.size(0); row += block) {
    const std::int64_t count = std::min(block, y_TH.size(0) - row);
    const at::Tensor y = y_TH.narrow(0, row, count);
    const at::Tensor dlogits_TV =
        logits_backward(y, head_VH, targets_T.narrow(0, row, count), step_targets, &group, sum);
    y.copy_(linear_input_gradient(dlogits_TV, head_VH));  // nobody reads these rows again
  }
  y_TH = rows.scattered(y_TH);
  if (joint) {
    fused::rms_norm_backward(y_TH, {x_TH, norm_H.value, {}, shape.rms_norm_eps}, {},
                             norm_H.gradient);
    return {y_TH, sum};
  }
  return {has_rows ? rms_norm_backward(y_TH, x_TH, norm, norm_H) : y_TH, sum};
}

at::Tensor head_loss(const Decoder& shape, const Parameter& norm_H, const Parameter& head_VH,
                     const at::Tensor& x_TH, const at::Tensor& targets_T, const TensorRows& rows,
                     Collective* group) {
  const at::Tensor y_TH =
      rows.gathered(norm_H.defined() ? rms_norm(x_TH, norm_H, shape.rms_norm_eps) : x_TH);
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  for (std::int64_t row = 0; row < y_TH.size(0); row += block) {
    const std::int64_t count = std::min(block, y_TH.size(0) - row);
    static_cast<void>(block_loss(y_TH.narrow(0, row, count), head_VH,
                                 targets_T.narrow(0, row, count), group, sum));
  }
  return sum;
}

}  // namespace slimpack
