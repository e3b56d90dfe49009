// Vocabulary: embedding, and final norm, head and loss, each cut over tensor-parallel ranks or
// whole. The head leaves out rows without a target where they are many, and works in blocks of
// rows, so that the logits of a MicroPack never exist whole: forward and backward in one go, or the
// loss alone. Shapes: P = rows that the head runs on.
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

/// The rows of a MicroPack that the head runs on, in ascending order, and how the loss counts them.
struct HeadTargets {
  at::Tensor rows_P = {};     ///< their places among the MicroPack's rows; undefined = all rows
  at::Tensor targets_P = {};  ///< the tokens that they predict; of a row without a target any token
  /// In the accumulate type, 0 for a row without a target; undefined = 1 each.
  at::Tensor weights_P1 = {};
  double step_weight = 1;  ///< Σ weights of the whole step, by which the loss is divided

  [[nodiscard]] std::int64_t count() const { return targets_P.size(0); }
  /// The `count` rows from `row` on.
  [[nodiscard]] HeadTargets narrow(std::int64_t row, std::int64_t count) const;
};

/// Logits of a block of rows and of the rank's columns, in the compute type or wider; on the way to
/// the loss's gradient, which takes their place. Between own() and loss(), ranks that have a part
/// of the vocabulary each exchange what they know of a row.
class BlockLogits {
 public:
  /// `rounded_PV`: logits in the compute type, as Hugging Face rounds them. `targets`: those of
  /// these rows, of the whole vocabulary, whose column `from` is the rank's first.
  BlockLogits(at::Tensor rounded_PV, HeadTargets targets, std::int64_t from);

  /// Log-sum-exp of the rank's columns, and the target's logit, 0 where it is not here.
  [[nodiscard]] fused::TargetLogits own() const;
  /// Σ weight · loss, from the same over all columns: fp64 scalar.
  [[nodiscard]] at::Tensor loss(const fused::TargetLogits& all) const;
  /// Gradient of Σ weight · loss / step_weight in the compute type. The logits are gone then.
  [[nodiscard]] at::Tensor take_gradient(const at::Tensor& lse_P1);

 private:
  at::ScalarType compute_type_;
  bool fused_;
  at::Tensor logits_PV_;
  HeadTargets targets_;
  std::int64_t from_;
  at::Tensor columns_P1_;  ///< of the targets; any one where the target is not here
  at::Tensor here_P1_;     ///< 1 or 0
};

/// Rows of a block, so that its logits take little memory: where x lies and in its type.
[[nodiscard]] std::int64_t logit_block(std::int64_t vocab_size, const at::Tensor& x_TH);

struct HeadResult {
  at::Tensor dx_TH;
  at::Tensor loss_sum;  ///< fp64 scalar: Σ −weight · log p(target), not yet divided
};

/// Gradients are those of loss_sum / step_weight. Adds to the gradients of `norm_H` and `head_VH`.
/// The rows that it runs on move to the front of `x_TH`, whose other contents are lost: so they
/// take no memory besides.
[[nodiscard]] HeadResult head_backward(const Decoder& shape, Parameter& norm_H, Parameter& head_VH,
                                       at::Tensor x_TH, const HeadTargets& targets);

/// The result of head_backward with the vocabulary cut over the ranks of `group`. `x_TH`, which
/// stays as it is, and the result's dx_TH are own rows, `targets` those of all rows. Every rank has
/// the whole loss. A rank without a row needs no norm: `norm_H` may be undefined there.
[[nodiscard]] HeadResult parallel_head_backward(const Decoder& shape, Parameter& norm_H,
                                                Parameter& head_VH, const at::Tensor& x_TH,
                                                const HeadTargets& targets, const TensorRows& rows,
                                                Collective& group);

/// loss_sum of the same rows, without a gradient. `group`: the ranks over which the vocabulary is
/// cut, null where it is whole; `x_TH`, which stays as it is, `norm_H` and `targets` as above.
/// Every rank has the whole loss.
[[nodiscard]] at::Tensor head_loss(const Decoder& shape, const Parameter& norm_H,
                                   const Parameter& head_VH, const at::Tensor& x_TH,
                                   const HeadTargets& targets, const TensorRows& rows,
                                   Collective* group);

}  // namespace slimpack
