// Layer rows: what backward needs of a layer's forward, row by row.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <vector>

namespace slimpack {

/// Saved rows of one MicroPack in one layer; dimension 0 is always the row. Undefined where a
/// layer has no such rows or does not keep them (recompute_rows.h).
struct LayerRows {
  at::Tensor x_TH;       ///< input of the layer
  at::Tensor q_TND;      ///< queries after rope
  at::Tensor raw_q_TND;  ///< queries before norm and rope, with q/k norms
  at::Tensor raw_k_TGD;  ///< keys before norm and rope, with q/k norms
  at::Tensor out_TND;    ///< attention output
  at::Tensor lse_TN;     ///< log-sum-exp of the scores
  at::Tensor middle_TH;  ///< after the attention's residual
  at::Tensor
      gate_up_TO;  ///< gate and up projections side by side; of experts those of all of a row's
  at::Tensor router_TE;  ///< probabilities of experts
  at::Tensor choice_TK;  ///< a row's experts; kept in any case, so that backward meets the same
  at::Tensor act_TF;     ///< silu(gate) ⊙ up
  at::Tensor attention_rstd_T1, mlp_rstd_T1, q_rstd_TN1, k_rstd_TG1;  ///< 1 / rms in the norms

  /// Whether all()[tensor] has the rank's own rows of hidden states, not all rows of its heads or
  /// columns.
  [[nodiscard]] bool hidden(std::size_t tensor) const {
    const at::Tensor* const t = all()[tensor];
    return t == &x_TH || t == &middle_TH || t == &attention_rstd_T1 || t == &mlp_rstd_T1;
  }
  /// Whether it has the rows with which the rank attends.
  [[nodiscard]] bool in_attention(std::size_t tensor) const {
    const at::Tensor* const t = all()[tensor];
    return t == &q_TND || t == &raw_q_TND || t == &raw_k_TGD || t == &out_TND || t == &lse_TN ||
           t == &q_rstd_TN1 || t == &k_rstd_TG1;
  }
  static constexpr std::size_t kTensors = 15;
  [[nodiscard]] std::array<const at::Tensor*, kTensors> all() const {
    return pointers<const at::Tensor>(*this);
  }
  [[nodiscard]] std::array<at::Tensor*, kTensors> all() { return pointers<at::Tensor>(*this); }

 private:
  template <class Tensor, class Rows>
  static std::array<Tensor*, kTensors> pointers(Rows& r) {
    return {&r.x_TH,        &r.q_TND,      &r.raw_q_TND,  &r.raw_k_TGD, &r.out_TND,
            &r.lse_TN,      &r.middle_TH,  &r.gate_up_TO, &r.act_TF,    &r.attention_rstd_T1,
            &r.mlp_rstd_T1, &r.q_rstd_TN1, &r.k_rstd_TG1, &r.router_TE, &r.choice_TK};
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
