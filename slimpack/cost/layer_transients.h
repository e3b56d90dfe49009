// What one action of a stage holds beside the stores (docs/row-store.md, "What is alive during an
// action"), in bytes of one rank.
#pragma once

#include <cstdint>

#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Bytes of one layer's K and V, dK and dV that an action opens and closes.
struct LayerStores {
  std::int64_t opened = 0;
  std::int64_t closed = 0;

  /// A backward slice of a sequence of `length` tokens begins …
  void open(const LayerWidths& w, const Slice& s, Tokens length);
  /// … and has ended.
  void close(const LayerWidths& w, const Slice& s, Tokens length);
};

/// One layer of a forward MicroPack: what it holds at most beyond the rows that it keeps.
[[nodiscard]] std::int64_t layer_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                                   Recompute recompute);

/// One layer of a backward MicroPack: what it holds at most beyond the stores and the dK and dV
/// that it opens there, copied rows not counted. K and V that it closes on the way make room for
/// what follows.
[[nodiscard]] std::int64_t layer_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                    const SequenceLengths& lengths,
                                                    Recompute recompute);

/// A layer's weight gradients, when they run by themselves: a normalised input is computed again
/// and gathered from all tensor-parallel ranks, like the gradient of an output in its turn; then
/// the product.
[[nodiscard]] std::int64_t weight_gradient_transient(const LayerWidths& w, std::int64_t tokens);

/// Final norm, head and loss, which run before any layer: dx, targets, and one block of rows of
/// `block` tokens at most.
[[nodiscard]] std::int64_t head_transient(const LayerWidths& w, std::int64_t tokens, Tokens block);

}  // namespace slimpack
