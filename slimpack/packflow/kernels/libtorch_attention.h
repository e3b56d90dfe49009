// Attention of libtorch's operators, for types and devices that have no kernel of their own.
#pragma once

#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

/// Computes what attend and attend_backward compute, with every mask, from matrix products: exact
/// in fp64, and the reference of fused kernels in tests. Holds scores of 256 queries and all keys
/// at a time, in the accumulate type.
[[nodiscard]] AttentionResult composed_attend(const at::Tensor& q_TND, const KeysValues& kv,
                                              Mask mask);
[[nodiscard]] AttentionGradients composed_attend_backward(const QueryRows& rows,
                                                          const KeysValues& kv, Mask mask);

/// Computes what attend and attend_backward compute by libtorch's flash attention for CPUs, which
/// takes any floating-point type. Its causal mask is aligned top-left; a window is a tensor that is
/// added to the scores. REQUIRES: tensors on a CPU, Mask::kCausalEnd only with a window.
[[nodiscard]] AttentionResult cpu_attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask);
[[nodiscard]] AttentionGradients cpu_attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                     Mask mask);

}  // namespace slimpack
