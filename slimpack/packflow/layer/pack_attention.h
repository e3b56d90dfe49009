// Attention of a MicroPack in one layer, forward and backward: its slices against the keys and
// values of their sequences, wherever these are.
#pragma once

#include <ATen/core/Tensor.h>

#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/layer/layer_parts.h"

namespace slimpack {

/// `exchange`: the context's in forward; null where backward attends again. REQUIRES: keys and
/// values up to each slice's end are in the stores.
[[nodiscard]] AttentionResult attend(const LayerContext& c, const at::Tensor& q_TND,
                                     const AttentionExchange* exchange);

/// Gradients of q and k before rope and of v, side by side [T, Q + 2K]. Adds the prefixes' dK/dV to
/// the store, takes the slices' own from there and releases the slices. Where `before` has q and k
/// as they were before their norms, the gradients are those of these (norms_with_rope).
[[nodiscard]] at::Tensor attend_backward(const LayerContext& c, const QueryRows& rows,
                                         const fused::Heads& before);

}  // namespace slimpack
