// Row store: what the forward pass of every layer keeps for backward, by forward MicroPack, handed
// out again by backward MicroPack.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/rms_norm.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/regroup.h"

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

/// Who holds rows: one of a replica's tensor-parallel ranks.
struct RowHolder {
  ReplicaId replica{0};
  std::int32_t tensor = 1;
  std::int32_t index = 0;
};

/// Rows of one stage during one step. A forward MicroPack's rows are freed, layer by layer, when
/// the last backward MicroPack that uses them has run through that layer.
class RowStore {
 public:
  /// `layers` counts the places per MicroPack: the stage's layers, and on the last stage one more
  /// for the head's input. Rows are those that `holder` has: hidden states and what norms made of
  /// them are its own, all else its replica's.
  RowStore(const PackPlan& packs, std::size_t layers, const RowHolder& holder = {});

  /// Keeps the rows of a forward MicroPack. REQUIRES: not kept before.
  void put(PackId forward, std::size_t layer, LayerRows rows);

  /// The rows of a backward MicroPack, in its slice order: views when they lie together in one
  /// forward MicroPack, else copies. Tensors without rows where the rank holds none.
  [[nodiscard]] LayerRows gather(PackId backward, std::size_t layer) const;

  /// The backward MicroPack is done with this layer.
  void release(PackId backward, std::size_t layer);

  /// True when every row has been released.
  [[nodiscard]] bool empty() const;

 private:
  void remember_form(std::size_t layer, const LayerRows& rows);

  struct Kept {
    LayerRows rows;
    Tokens unused;  ///< rows that no backward MicroPack has released yet
  };
  [[nodiscard]] const std::vector<RowSegment>& segments(PackId backward, std::size_t tensor) const;

  std::vector<Tokens> forward_rows_;
  std::vector<std::vector<RowSegment>> segments_;         ///< by backward pack: the replica's rows
  std::vector<std::vector<RowSegment>> hidden_segments_;  ///< likewise: the holder's own
  std::vector<std::vector<Kept>> kept_;                   ///< [layer][forward pack]
  std::vector<LayerRows> none_;  ///< by layer: the kept tensors, without rows
};

}  // namespace slimpack
