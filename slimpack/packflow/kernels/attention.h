// Attention of one slice against the keys and values of its sequence, forward and backward.
//
// A slice's queries see its prefix without a mask and its own tokens causally. Where a kernel
// aligns its causal mask bottom-right, that is one call; where top-left, the two parts are two
// calls whose outputs are merged by their log-sum-exp. Backward is separable by key block once the
// merged output and log-sum-exp are given (FlashAttention-2), so forward and backward may be cut at
// different tokens.
//
// A query at position p with a window of w keys sees those at positions (p − w, p]. Keys that the
// window hides from all queries of a slice take part in no call. A kernel that does not pass over
// hidden keys takes the queries in blocks (window_blocks), each with the keys that it sees.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/base/units.h"
#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

/// Output and log-sum-exp of the slice's T queries; `kv` are those of the first `prefix + T`
/// tokens. `window`: most keys that a query sees, its own among them (LayerShape); 0 = all.
/// REQUIRES: T ≥ 1; q, k, v of one type; last dimensions contiguous.
[[nodiscard]] AttentionResult attention_forward(const at::Tensor& q_TND, const KeysValues& kv,
                                                Tokens prefix, std::int64_t window = 0);

/// Gradients of a slice. The prefix's share of dK and dV is added to `dkv_prefix` (accumulate type,
/// at least `prefix` rows; untouched when prefix is 0); the slice's own share is returned.
/// `window`: that of forward.
[[nodiscard]] AttentionGradients attention_backward(const at::Tensor& dout_TND,
                                                    const at::Tensor& q_TND, const KeysValues& kv,
                                                    const AttentionResult& forward, Tokens prefix,
                                                    const KeysValues& dkv_prefix,
                                                    std::int64_t window = 0);

}  // namespace slimpack
