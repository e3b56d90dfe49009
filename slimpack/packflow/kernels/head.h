// Final norm, head and loss, in blocks of rows, so that the logits of a MicroPack never exist
// whole: forward and backward in one go, or the loss alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/packflow/kernels/cross_entropy.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

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
