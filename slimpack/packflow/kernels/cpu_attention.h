// libtorch's flash attention for CPUs: any floating-point type. Its causal mask is aligned
// top-left. A window is a tensor that is added to the scores.
#pragma once

#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

/// Computes what attend and attend_backward compute. REQUIRES: tensors on a CPU, Mask::kCausalEnd
/// only with a window.
[[nodiscard]] AttentionResult cpu_attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask);
[[nodiscard]] AttentionGradients cpu_attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                     Mask mask);

}  // namespace slimpack
