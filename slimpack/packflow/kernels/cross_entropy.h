// Cross-entropy of rows of logits, forward and backward in two calls: between them, ranks that have
// a part of the vocabulary each exchange what they know of a row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/fused/fused.h"

namespace slimpack {

/// Target of a row without one: a token that the loss does not count, or the last of a sequence.
inline constexpr std::int64_t kNoTarget = -1;

/// Logits of a block of rows and of the rank's columns, in the compute type or wider; on the way to
/// the loss's gradient, which takes their place.
class BlockLogits {
 public:
  /// `rounded_TV`: logits in the compute type, as Hugging Face rounds them. `targets_T`: of the
  /// whole vocabulary, whose column `from` is the rank's first.
  BlockLogits(at::Tensor rounded_TV, at::Tensor targets_T, std::int64_t from);

  /// Log-sum-exp of the rank's columns, and the target's logit, 0 where it is not here.
  [[nodiscard]] fused::TargetLogits own() const;
  /// Σ of the loss of rows that have a target, from the same over all columns: fp64 scalar.
  [[nodiscard]] at::Tensor loss(const fused::TargetLogits& all) const;
  /// Gradient of Σ loss / `step_targets` in the compute type. The logits are gone then.
  [[nodiscard]] at::Tensor take_gradient(const at::Tensor& lse_T1, std::int64_t step_targets);

 private:
  at::ScalarType compute_type_;
  bool fused_;
  at::Tensor logits_TV_;
  at::Tensor targets_T_;
  std::int64_t from_;
  at::Tensor columns_T1_;  ///< of the targets; any one where the target is not here
  at::Tensor here_T1_;     ///< 1 or 0
  at::Tensor valid_T1_;    ///< whether the row has a target at all: 1 or 0
};

/// Rows of a block, so that its logits take little memory: where x lies and in its type.
[[nodiscard]] std::int64_t logit_block(std::int64_t vocab_size, const at::Tensor& x_TH);

}  // namespace slimpack
