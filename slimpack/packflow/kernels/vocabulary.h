// Vocabulary: embedding, and final norm, head and loss, each cut over tensor-parallel ranks or
// whole. The head works in blocks of rows, so that the logits of a MicroPack never exist whole:
// forward and backward in one go, or the loss alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// Own rows of the hidden states. `tokens_T` are those of all rows.
[[nodiscard]] at::Tensor embed(const Parameter& embedding_VH, const at::Tensor& tokens_T,
                               const TensorRows& rows);

/// Adds to the gradient, from that of own rows.
void embed_backward(Parameter& embedding_VH, const at::Tensor& tokens_T, const at::Tensor& dy_TH,
                    const TensorRows& rows);

/// Target of a row without one: a token that the loss does not count, or the last of a sequence.
inline constexpr std::int64_t kNoTarget = -1;

/// Logits of a block of rows and of the rank's columns, in the compute type or wider; on the way to
/// the loss's gradient, which takes their place. Between own() and loss(), ranks that have a part
/// of the vocabulary each exchange what they know of a row.
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

struct HeadResult {
  at::Tensor dx_TH;
  at::Tensor loss_sum;  ///< fp64 scalar: Σ −log p(target), not yet divided
};

/// Gradients are those of Σ loss / `step_targets`, the valid targets of the whole step. Adds to the
/// gradients of `norm_H` and `head_VH`. REQUIRES: step_targets ≥ 1 when any target is valid.
[[nodiscard]] HeadResult head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                                       const at::Tensor& x_TH, const at::Tensor& targets_T,
                                       std::int64_t step_targets);

/// The result of head_backward with the vocabulary cut over the ranks of `group`. `x_TH` and the
/// result's dx_TH are own rows, `targets_T` those of all rows. Every rank has the whole loss. A
/// rank without a row needs no norm: `norm_H` may be undefined there.
[[nodiscard]] HeadResult parallel_head_backward(const Decoder& shape, Parameter& norm_H,
                                                Parameter& head_VH, const at::Tensor& x_TH,
                                                const at::Tensor& targets_T,
                                                std::int64_t step_targets, const TensorRows& rows,
                                                Collective& group);

/// loss_sum of the same rows, without a gradient. `group`: the ranks over which the vocabulary is
/// cut, null where it is whole; `x_TH`, `norm_H` and `targets_T` as above. Every rank has the whole
/// loss.
[[nodiscard]] at::Tensor head_loss(const Decoder& shape, const Parameter& norm_H,
                                   const Parameter& head_VH, const at::Tensor& x_TH,
                                   const at::Tensor& targets_T, const TensorRows& rows,
                                   Collective* group);

}  // namespace slimpack
