// Rows that a layer's forward does not keep, and how its backward gets them: the only place of the
// runtime that knows recomputation.
//
// Forward computes every row and drops, when the layer is done, what its policy does not keep.
// Backward computes missing rows of matrix products and of attention before anything else, and
// norms and silu(gate) ⊙ up where it needs them, so that they are gone again at once. No policy
// keeps more of a norm than its input and 1 / rms: the backward kernels of GPUs read these two.
// Attention runs again slice by slice of the *backward* MicroPack: the keys and values of its
// sequences are all there.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/layer/layer_parts.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/stores/row_store.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// n ⊙ weight of a norm's input, hidden states, for forward; where the policy keeps 1 / rms, `rstd`
/// gets it, unless fused kernels compute it again.
[[nodiscard]] at::Tensor normed_input(const LayerContext& c, const at::Tensor& x,
                                      const Parameter& weight, at::Tensor& rstd);
/// Is normed_input() of heads, for q/k norms.
[[nodiscard]] at::Tensor normed_heads(const LayerContext& c, const at::Tensor& x,
                                      const Parameter& weight, at::Tensor& rstd);

/// Whether rows of queries are kept, of keys with q/k norms, and of attention's output.
[[nodiscard]] bool keeps_queries(Recompute recompute);

/// Whether rows of gate and up are kept, and of the router's probabilities.
[[nodiscard]] bool keeps_gate_up(Recompute recompute);

/// By layer: whether its rows wait in host memory (row_store.h).
[[nodiscard]] std::vector<bool> offloading_layers(std::span<const Recompute> by_layer);

/// At the end of a layer's forward.
void drop_rows(LayerRows& rows, Recompute recompute);

/// At the start of a layer's backward: `kept`, as the row store hands it out, with every row that
/// takes a matrix product or attention, but for what experts compute (experts.h). REQUIRES: rows of
/// one policy; the keys and values of the MicroPack's sequences are in the store.
[[nodiscard]] BackwardRows with_missing_rows(const LayerContext& c, BackwardRows kept);

/// x / rms(x) and 1 / rms(x). `rstd`: 1 / rms(x) where it was kept.
[[nodiscard]] Normalized normalized(const LayerContext& c, const at::Tensor& x,
                                    const at::Tensor& rstd);
/// silu(gate) ⊙ up, kept or computed now.
[[nodiscard]] at::Tensor activation(const BackwardRows& rows);

/// Queries as attention saw them, kept or computed now. With q/k norms also what their backward
/// needs, unless a kernel takes them together with rope (norms_with_rope).
struct Queries {
  at::Tensor q_TND;
  Normalized q_norm, k_norm;
};
[[nodiscard]] Queries queries(const LayerContext& c, const LayerRows& rows);

}  // namespace slimpack
