#include "slimpack/packflow/kernels/vocabulary.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
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

HeadTargets HeadTargets::narrow(std::int64_t row, std::int64_t count) const {
  const auto part = [&](const at::Tensor& all) {
    return all.defined() ? all.narrow(0, row, count) : at::Tensor();
  };
  return {part(rows_P), part(targets_P), part(weights_P1), step_weight};
}

BlockLogits::BlockLogits(at::Tensor rounded_PV, HeadTargets targets, std::int64_t from)
    : compute_type_(rounded_PV.scalar_type()),
      fused_(fused::takes_rows(rounded_PV)),
      logits_PV_(std::move(rounded_PV)),
      targets_(std::move(targets)),
      from_(from) {
  if (fused_) return;
  const auto type = accumulate_type(logits_PV_);
  logits_PV_ = logits_PV_.to(type);
  const at::Tensor shifted_P1 = targets_.targets_P.sub(from).unsqueeze(1);
  columns_P1_ = shifted_P1.clamp(0, logits_PV_.size(1) - 1);
  here_P1_ = columns_P1_.eq(shifted_P1).to(type);
}

fused::TargetLogits BlockLogits::own() const {
  if (fused_) return fused::cross_entropy(logits_PV_, targets_.targets_P, from_);
  at::Tensor lse_P1 = at::logsumexp(logits_PV_, {1}, /*keepdim=*/true);
  return {std::move(lse_P1), at::gather(logits_PV_, 1, columns_P1_).mul_(here_P1_)};
}

at::Tensor BlockLogits::loss(const fused::TargetLogits& all) const {
  at::Tensor loss_P1 = at::sub(all.lse_T1, all.target_T1);
  if (targets_.weights_P1.defined()) loss_P1.mul_(targets_.weights_P1);
  return loss_P1.sum(at::kDouble);
}

at::Tensor BlockLogits::take_gradient(const at::Tensor& lse_P1) {
  const double share = 1 / targets_.step_weight;
  const at::Tensor weight_P1 =
      targets_.weights_P1.defined() ? targets_.weights_P1.mul(share) : at::full_like(lse_P1, share);
  at::Tensor logits_PV = std::exchange(logits_PV_, at::Tensor());
  if (fused_) {
    fused::cross_entropy_backward(logits_PV, targets_.targets_P, from_, lse_P1, weight_P1);
    return logits_PV;
  }
  logits_PV.sub_(lse_P1).exp_();
  logits_PV.scatter_add_(1, columns_P1_, here_P1_.neg());
  logits_PV.mul_(weight_P1);
  return logits_PV.to(compute_type_);
}

std::int64_t logit_block(std::int64_t vocab_size, const at::Tensor& x_TH) {
  if (fused::are_there_for(x_TH) && fused_head_takes(vocab_size))
    return fused_head_block(vocab_size).count();
  return head_block(vocab_size, x_TH.is_cpu() ? DeviceKind::kCpu : DeviceKind::kCuda).count();
}

namespace {

/// Calls `work` with the first row and the number of rows of each block.
template <class Work>
void in_blocks(std::int64_t rows, std::int64_t block, Work work) {
  for (std::int64_t row = 0; row < rows; row += block) work(row, std::min(block, rows - row));
}

/// Moves the head's rows to the front, and returns the rows there. A row never moves back,
/// so a block overwrites none that a later block takes.
at::Tensor to_front(const at::Tensor& rows_TH, const HeadTargets& targets, std::int64_t block) {
  if (targets.rows_P.defined())
    in_blocks(targets.count(), block, [&](std::int64_t row, std::int64_t count) {
      rows_TH.narrow(0, row, count)
          .copy_(rows_TH.index_select(0, targets.rows_P.narrow(0, row, count)));
    });
  return rows_TH.narrow(0, 0, targets.count());
}

/// Moves the rows at the front back to their places. All other rows become 0. The last block moves
/// first, so it overwrites none that has not moved.
void from_front(const at::Tensor& rows_TH, const HeadTargets& targets, std::int64_t block) {
  if (!targets.rows_P.defined()) return;
  const std::int64_t count = targets.count();
  rows_TH.narrow(0, count, rows_TH.size(0) - count).zero_();
  for (std::int64_t end = count; end > 0; end -= std::min(block, end)) {
    const std::int64_t rows = std::min(block, end);
    const at::Tensor front_PH = rows_TH.narrow(0, end - rows, rows);
    const at::Tensor moved_PH = front_PH.clone();
    front_PH.zero_();
    rows_TH.index_copy_(0, targets.rows_P.narrow(0, end - rows, rows), moved_PH);
  }
}

/// A block of rows on its way from logits to the loss's gradient.
struct BlockLoss {
  BlockLogits logits;
  at::Tensor lse_P1;  ///< over all columns
};

/// Adds the rows' loss to `sum`. `group` as for head_loss().
BlockLoss block_loss(const at::Tensor& y_PH, const Parameter& head_VH, const HeadTargets& targets,
                     Collective* group, at::Tensor& sum) {
  const Parameter no_bias;
  const std::int64_t from = group == nullptr ? 0 : head_VH.parts.front().piece.from;
  BlockLogits logits(linear(y_PH, head_VH, no_bias), targets, from);
  fused::TargetLogits all = logits.own();
  if (group != nullptr) {
    // Each rank has these numbers of its own columns. The ranks gather them and combine them to
    // those of all columns.
    const at::Tensor all_PR2 =
        at::stack(group->gathering().all_gather(at::cat({all.lse_T1, all.target_T1}, 1)), 1);
    all.lse_T1 = at::logsumexp(all_PR2.select(2, 0), {1}, /*keepdim=*/true);
    all.target_T1 = all_PR2.select(2, 1).sum(1, /*keepdim=*/true);
  }
  sum.add_(logits.loss(all));
  return {std::move(logits), std::move(all.lse_T1)};
}

/// The gradient of the rows' logits. Adds the head's gradient, and the rows' loss to `sum`. `group`
/// as for head_loss().
at::Tensor logits_backward(const at::Tensor& y_PH, Parameter& head_VH, const HeadTargets& targets,
                           Collective* group, at::Tensor& sum) {
  Parameter no_bias;
  BlockLoss loss = block_loss(y_PH, head_VH, targets, group, sum);
  at::Tensor dlogits_PV = loss.logits.take_gradient(loss.lse_P1);
  accumulate_linear_gradient(dlogits_PV, y_PH, head_VH, no_bias);
  return dlogits_PV;
}

/// Rows of a block: input, and its gradient, which is written.
struct BlockRows {
  at::Tensor x_PH, dx_PH;
  HeadTargets targets;
};

void block_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                    const BlockRows& rows, at::Tensor& sum) {
  const Normalized norm = rms_normalize(rows.x_PH, shape.rms_norm_eps);
  const at::Tensor y_PH = at::mul(norm.n, norm_H.value);
  const at::Tensor dlogits_PV = logits_backward(y_PH, head_VH, rows.targets, nullptr, sum);
  rows.dx_PH.copy_(
      rms_norm_backward(linear_input_gradient(dlogits_PV, head_VH), rows.x_PH, norm, norm_H));
}

/// Replaces block_backward where a kernel computes the norm's backward in place.
void fused_block(const Decoder& shape, Parameter& norm_H, Parameter& head_VH, BlockRows rows,
                 at::Tensor& sum) {
  {
    const at::Tensor y_PH = rms_norm(rows.x_PH, norm_H, shape.rms_norm_eps);
    const at::Tensor dlogits_PV = logits_backward(y_PH, head_VH, rows.targets, nullptr, sum);
    at::mm_out(rows.dx_PH, dlogits_PV, head_VH.value);
  }
  fused::rms_norm_backward(rows.dx_PH, {rows.x_PH, norm_H.value, {}, shape.rms_norm_eps}, {},
                           norm_H.gradient);
}

}  // namespace

HeadResult head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                         at::Tensor x_TH, const HeadTargets& targets) {
  HeadResult result{at::empty_like(x_TH), at::zeros({}, x_TH.options().dtype(at::kDouble))};
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  const at::Tensor x_PH = to_front(x_TH, targets, block);
  in_blocks(targets.count(), block, [&](std::int64_t row, std::int64_t count) {
    const BlockRows rows{x_PH.narrow(0, row, count), result.dx_TH.narrow(0, row, count),
                         targets.narrow(row, count)};
    if (fused::takes_norm(rows.x_PH, norm_H.value))
      fused_block(shape, norm_H, head_VH, rows, result.loss_sum);
    else
      block_backward(shape, norm_H, head_VH, rows, result.loss_sum);
  });
  from_front(result.dx_TH, targets, block);
  return result;
}

HeadResult parallel_head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                                  const at::Tensor& x_TH, const HeadTargets& targets,
                                  const TensorRows& rows, Collective& group) {
  const bool has_rows = norm_H.defined();
  const bool joint = has_rows && fused::takes_norm(x_TH, norm_H.value);
  Normalized norm;
  if (has_rows && !joint) norm = rms_normalize(x_TH, shape.rms_norm_eps);
  at::Tensor y_TH = rows.gathered(!has_rows ? x_TH
                                  : joint   ? rms_norm(x_TH, norm_H, shape.rms_norm_eps)
                                            : at::mul(norm.n, norm_H.value));
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  const at::Tensor y_PH = to_front(y_TH, targets, block);
  in_blocks(targets.count(), block, [&](std::int64_t row, std::int64_t count) {
    const at::Tensor y = y_PH.narrow(0, row, count);
    const at::Tensor dlogits_PV =
        logits_backward(y, head_VH, targets.narrow(row, count), &group, sum);
    y.copy_(linear_input_gradient(dlogits_PV, head_VH));  // nobody reads these rows again
  });
  from_front(y_TH, targets, block);
  y_TH = rows.scattered(y_TH);
  if (joint) {
    fused::rms_norm_backward(y_TH, {x_TH, norm_H.value, {}, shape.rms_norm_eps}, {},
                             norm_H.gradient);
    return {y_TH, sum};
  }
  return {has_rows ? rms_norm_backward(y_TH, x_TH, norm, norm_H) : y_TH, sum};
}

at::Tensor head_loss(const Decoder& shape, const Parameter& norm_H, const Parameter& head_VH,
                     const at::Tensor& x_TH, const HeadTargets& targets, const TensorRows& rows,
                     Collective* group) {
  const at::Tensor y_TH =
      rows.gathered(norm_H.defined() ? rms_norm(x_TH, norm_H, shape.rms_norm_eps) : x_TH);
  at::Tensor sum = at::zeros({}, x_TH.options().dtype(at::kDouble));
  const std::int64_t block = logit_block(shape.vocab_size, x_TH);
  const at::Tensor y_PH = to_front(y_TH, targets, block);
  in_blocks(targets.count(), block, [&](std::int64_t row, std::int64_t count) {
    static_cast<void>(
        block_loss(y_PH.narrow(0, row, count), head_VH, targets.narrow(row, count), group, sum));
  });
  return sum;
}

}  // namespace slimpack
