// What the attention of one layer holds while it runs (docs/row-store.md), in bytes of one rank.
// MicroPacks are given with the slices that the rank's replica holds; where MicroPack::replicas is
// more than one, rows of the others visit.
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

/// At most beyond the outputs and log-sum-exps of all slices.
[[nodiscard]] std::int64_t attention_forward_transient(const LayerWidths& w, const MicroPack& pack);

/// At most, with the gradients of q, k and v, and with what it opens and closes of the stores.
[[nodiscard]] std::int64_t attention_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                        const SequenceLengths& lengths);

}  // namespace slimpack
