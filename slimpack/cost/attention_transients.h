// Peak bytes of one layer's attention on one rank (docs/row-store.md). `pack` has the slices as the
// rank's replica holds them. If MicroPack::replicas is above 1, rows of the other replicas visit
// the rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Bytes of one layer's K, V, dK and dV that a backward action opens and closes.
struct LayerStores {
  std::int64_t opened = 0;
  std::int64_t closed = 0;

  /// Adds what opens when `s`, a backward slice of a sequence of `length` tokens, begins.
  void open(const LayerWidths& w, const Slice& s, Tokens length);
  /// Adds what closes when that slice has ended.
  void close(const LayerWidths& w, const Slice& s, Tokens length);
};

/// A context exchange (plan/context_exchange.h) as one of its two ranks sees it.
struct ExchangeSide {
  bool gives = false;
  std::size_t slice = 0;  ///< of the giver's pack
  Tokens queries, keys;
};

/// The peak beyond the outputs and log-sum-exps of all slices. `exchange`: null = none.
[[nodiscard]] std::int64_t attention_forward_transient(const LayerWidths& w, const MicroPack& pack,
                                                       const ExchangeSide* exchange = nullptr);

/// The peak, which includes the gradients of q, k and v and the stores that the action opens and
/// closes.
[[nodiscard]] std::int64_t attention_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                        const SequenceLengths& lengths,
                                                        const ExchangeSide* exchange = nullptr);

}  // namespace slimpack
