// What one action of a stage holds beside the stores (docs/row-store.md, "What is alive during an
// action"), in bytes of one rank. MicroPacks are given with the slices that the rank's replica
// holds.
#pragma once

#include <cstdint>

#include "slimpack/cost/attention_transients.h"
#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// One layer of a forward MicroPack: what it holds at most beyond the rows that it keeps.
[[nodiscard]] std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                                   Recompute recompute);

/// Bytes of a token that a layer keeps for its weight gradients when they are put off, by the
/// moment of its backward from which they are beyond what is there otherwise. All 0 = they are not.
struct PutOffWidths {
  std::int64_t act = 0;      ///< silu(gate) ⊙ up
  std::int64_t gate_up = 0;  ///< gradient of gate and up
  std::int64_t norm = 0;     ///< each of the normalised inputs
  std::int64_t out = 0;      ///< attention output
  std::int64_t qkv = 0;      ///< gradient of q, k and v

  [[nodiscard]] bool any() const { return qkv > 0; }
};

/// `views`: the MicroPack's rows are views of tensors that it shares with others. What they hold of
/// the operands is then copied; otherwise it is there already and stays.
[[nodiscard]] PutOffWidths put_off_widths(const LayerWidths& w, Recompute recompute, bool views);

/// One layer of a backward MicroPack: what it holds at most beyond the stores and the dK and dV
/// that it opens there, copied rows not counted. K and V that it closes on the way make room for
/// what follows.
[[nodiscard]] std::int64_t layer_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                    const SequenceLengths& lengths,
                                                    Recompute recompute,
                                                    const PutOffWidths& put_off = {});

/// A stage's weight gradients, when they run by themselves, beyond their operands, each of which is
/// freed once used: so the first layer holds most. Between tensor-parallel ranks the hidden states
/// of either side of a map are gathered in its turn.
[[nodiscard]] std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens);

/// Final norm, head and loss, which run before any layer: dx, targets, and one block of rows of
/// `block` tokens at most.
[[nodiscard]] std::int64_t head_transient(const LayerWidths& w, std::int64_t tokens, Tokens block);

}  // namespace slimpack
