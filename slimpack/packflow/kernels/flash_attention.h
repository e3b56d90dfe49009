// FlashAttention-2 (arXiv:2307.08691) as libtorch has it for CUDA devices: bf16, head dimensions
// that are multiples of 8 up to 256. Its causal mask is aligned bottom-right.
#pragma once

#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

/// As attend and attend_backward; all masks.
[[nodiscard]] AttentionResult flash_attend(const at::Tensor& q_TND, const KeysValues& kv,
                                           Mask mask);
[[nodiscard]] AttentionGradients flash_attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                       Mask mask);

/// As attend_sequences and attend_sequences_backward.
[[nodiscard]] AttentionResult flash_attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                                     const JoinedSequences& sequences);
[[nodiscard]] AttentionGradients flash_attend_sequences_backward(const QueryRows& rows,
                                                                 const KeysValues& kv,
                                                                 const JoinedSequences& sequences);

}  // namespace slimpack
