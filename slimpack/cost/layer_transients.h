// Peak bytes of one action on one rank beyond the stores (docs/row-store.md, "What is alive during
// an action"). `pack` has the slices as the rank's replica holds them.
#pragma once

#include <cstdint>

#include "slimpack/cost/attention_transients.h"
#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The peak of one layer of a forward MicroPack beyond the rows that it keeps.
[[nodiscard]] std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                                   Recompute recompute,
                                                   const ExchangeSide* exchange = nullptr);

/// Bytes of a token that a layer keeps only because its weight gradients are put off. Each tensor
/// counts from the moment of backward at which it would otherwise not exist. All 0 = weight
/// gradients are not put off.
struct PutOffWidths {
  std::int64_t act = 0;      ///< silu(gate) ⊙ up
  std::int64_t gate_up = 0;  ///< gradient of gate and up
  std::int64_t norm = 0;     ///< each of the normalised inputs
  std::int64_t out = 0;      ///< attention output
  std::int64_t qkv = 0;      ///< gradient of q, k and v

  [[nodiscard]] bool any() const { return qkv > 0; }
};

/// `views`: the MicroPack's rows are views of tensors that it shares with other MicroPacks.
/// Operands that are such views are copied, so they count. Operands in rows of its own do not.
[[nodiscard]] PutOffWidths put_off_widths(const LayerWidths& w, Recompute recompute, bool views);

/// The peak of one layer of a backward MicroPack beyond the stores and the dK and dV that it opens
/// there. Copied rows are not counted. K and V that it closes on the way make room for what
/// follows.
[[nodiscard]] std::int64_t layer_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                    const SequenceLengths& lengths,
                                                    Recompute recompute,
                                                    const PutOffWidths& put_off = {},
                                                    const ExchangeSide* exchange = nullptr);

/// The peak of a stage's put-off weight gradients beyond their operands. Each product frees its
/// operands, so the first layer has the peak. Tensor-parallel ranks gather the hidden states of one
/// product at a time.
[[nodiscard]] std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens);

/// The peak of final norm, head and loss, which run before any layer: dx, targets, and the tensors
/// of one block of at most `block` tokens.
[[nodiscard]] std::int64_t head_transient(const LayerWidths& w, std::int64_t tokens, Tokens block);

}  // namespace slimpack
