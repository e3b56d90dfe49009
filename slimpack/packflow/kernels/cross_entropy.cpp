#include "slimpack/packflow/kernels/cross_entropy.h"

#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <utility>

#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/vocabulary_memory.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {

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

}  // namespace slimpack
