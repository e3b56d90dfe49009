// Layer rows: what backward needs of a layer's forward, row by row.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <vector>

#include "slimpack/packflow/kernels/rms_norm.h"

namespace slimpack {

/// Saved rows of one MicroPack in one layer; dimension 0 is always the row. Undefined where a
/// layer has no such rows or does not keep them (recompute_rows.h).
struct LayerRows {
  at::Tensor x_TH;        ///< input of the layer
  at::Tensor q_TND;       ///< queries after rope; with q/k norms that are not kept, before both
  at::Tensor k_TGD;       ///< keys before norm and rope, with q/k norms that are not kept
  at::Tensor out_TND;     ///< attention output
  at::Tensor lse_TN;      ///< log-sum-exp of the scores
  at::Tensor middle_TH;   ///< after the attention's residual
  at::Tensor gate_up_TO;  ///< gate and up projections side by side
  at::Tensor act_TF;      ///< silu(gate) ⊙ up
  Normalized attention_norm, q_norm, k_norm, mlp_norm;  ///< what the norms made

  /// Whether all()[tensor] has the rank's own rows of hidden states, not all rows of its heads or
  /// columns.
  [[nodiscard]] bool hidden(std::size_t tensor) const {
    const at::Tensor* const t = all()[tensor];
    return t == &x_TH || t == &middle_TH || t == &attention_norm.n || t == &attention_norm.rstd ||
           t == &mlp_norm.n || t == &mlp_norm.rstd;
  }
  /// Whether it has the rows with which the rank attends.
  [[nodiscard]] bool in_attention(std::size_t tensor) const {
    const at::Tensor* const t = all()[tensor];
    return t == &q_TND || t == &k_TGD || t == &out_TND || t == &lse_TN || t == &q_norm.n ||
           t == &q_norm.rstd || t == &k_norm.n || t == &k_norm.rstd;
  }
  static constexpr std::size_t kTensors = 16;
  [[nodiscard]] std::array<const at::Tensor*, kTensors> all() const {
    return pointers<const at::Tensor>(*this);
  }
  [[nodiscard]] std::array<at::Tensor*, kTensors> all() { return pointers<at::Tensor>(*this); }

 private:
  template <class Tensor, class Rows>
  static std::array<Tensor*, kTensors> pointers(Rows& r) {
    return {
        &r.x_TH,         &r.q_TND,       &r.k_TGD,    &r.out_TND,          &r.lse_TN,
        &r.middle_TH,    &r.gate_up_TO,  &r.act_TF,   &r.attention_norm.n, &r.attention_norm.rstd,
        &r.q_norm.n,     &r.q_norm.rstd, &r.k_norm.n, &r.k_norm.rstd,      &r.mlp_norm.n,
        &r.mlp_norm.rstd};
  }
};

/// Rows of a backward MicroPack in one layer. Gate and up, the widest, come in one piece for each
/// forward MicroPack, one below the other. Their readers write elsewhere anyway, so a joined copy
/// would be wasted.
struct BackwardRows {
  LayerRows joined;  ///< all but gate and up
  std::vector<at::Tensor> gate_up_TO;
};

}  // namespace slimpack
