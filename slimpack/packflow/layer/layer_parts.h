// Parts of a decoder layer that its forward, its backward and the recomputation in backward share,
// and the context in which they work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/layer/attention_rows.h"
#include "slimpack/packflow/layer/exchanged_attention.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/tensor_rows.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/context_parallel.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/layer_shape.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// The inputs of both passes of a layer besides rows. References; made per action and layer.
struct LayerContext {
  const LayerShape& shape;  ///< the rank's part of the layer (tensor_parallel_part)
  double rms_norm_eps;
  LayerParameters& parameters;
  KvStore& kv;
  std::size_t layer;  ///< within the stage
  const MicroPack& pack;
  const RopeRows& rope;
  const std::vector<PackRun>& runs;  ///< of its attention
  Collective* group;                 ///< replicas that run the pack together; null = one alone
  CpCommType cp_comm_type;           ///< of these
  const RowRemap* remap;             ///< of attention's rows; null = they are where all others are
  const TensorRows& rows;            ///< its hidden states over the tensor-parallel ranks
  Recompute recompute = Recompute::kElementwise;  ///< what forward does not keep
  const AttentionExchange* exchange = nullptr;    ///< of this layer; null = none
};

/// q, k and v of the joint projection: views.
[[nodiscard]] fused::Heads split_qkv(const at::Tensor& qkv_TO, const LayerShape& s);

/// Heads as their norm takes them: over its last dimension. Other tensors as they are.
[[nodiscard]] at::Tensor as_normed(const LayerContext& c, const at::Tensor& heads_TND);
/// The weights of the q/k norms. REQUIRES: the model has them.
[[nodiscard]] fused::HeadNorms head_norms(const LayerContext& c);
/// Whether one kernel takes heads like these through the q/k norms and rope, and one takes their
/// gradients back.
[[nodiscard]] bool norms_with_rope(const LayerContext& c, const at::Tensor& like_TND);

/// Rows of heads as attention takes them, from where the rank's other rows are; and back.
[[nodiscard]] inline at::Tensor to_attention(const LayerContext& c, const at::Tensor& held) {
  return c.remap != nullptr ? c.remap->to_attention(held) : held;
}
[[nodiscard]] inline at::Tensor from_attention(const LayerContext& c, const at::Tensor& attending) {
  return c.remap != nullptr ? c.remap->from_attention(attending) : attending;
}

/// residual + x Wᵀ + b where the rank has all rows of x but its columns alone: summed over the
/// tensor-parallel ranks, own rows of the residual and of the result.
[[nodiscard]] at::Tensor row_linear_onto(const LayerContext& c, const at::Tensor& residual_TH,
                                         const at::Tensor& x_TI, const Parameter& weight_HI,
                                         const Parameter& bias_H);

/// silu(gate) ⊙ up of gate and up side by side, in pieces one below the other.
[[nodiscard]] at::Tensor gated(const std::vector<at::Tensor>& gate_up_TO);
/// Gradient of gate and up, side by side, from that of silu(gate) ⊙ up.
[[nodiscard]] at::Tensor gated_backward(const at::Tensor& dact_TF,
                                        const std::vector<at::Tensor>& gate_up_TO);

/// Whether one kernel also gives silu(gate) ⊙ up: then nobody needs to compute it before.
[[nodiscard]] bool gated_backward_gives_activation(const std::vector<at::Tensor>& gate_up_TO);
/// gated_backward() where `dact_TF` becomes silu(gate) ⊙ up. REQUIRES:
/// gated_backward_gives_activation.
[[nodiscard]] at::Tensor gated_backward_with_activation(const at::Tensor& dact_TF,
                                                        const std::vector<at::Tensor>& gate_up_TO);

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
