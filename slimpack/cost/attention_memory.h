// The memory of one layer's attention on one rank (docs/row-store.md). `pack` has the slices as the
// rank's replica holds them. If MicroPack::replicas is above 1, rows of the other replicas visit
// the rank. Sizes of FlashAttention 2 are those of libtorch's
// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp; those of 4 are those of
// packflow/kernels/fa4_workspace.h, and 3 has the same sums. All with deterministic algorithms;
// others take less.
#pragma once

#include <cstddef>
#include <cstdint>

#include "slimpack/cost/layer_memory.h"
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

/// Bytes of one forward call beyond its results: the log-sum-exp with heads first, whose copy is
/// the result. REQUIRES: w.flash().
[[nodiscard]] std::int64_t flash_forward_call(const LayerWidths& w, std::int64_t queries);

/// Bytes of one backward call beyond dQ, dK and dV: the log-sum-exp with heads first; a sum per
/// query and head in fp32; dQ in fp32. Release 2 has dQ in as many copies as keep all
/// multiprocessors at work, and dK and dV of every query head where several share a key head.
/// Releases 3 and 4 have dQ once, dK and dV in fp32 instead, another log-sum-exp and locks.
/// `sequences`: so many lie end to end, each of them padded to whole tiles. REQUIRES: w.flash().
[[nodiscard]] std::int64_t flash_backward_call(const LayerWidths& w, std::int64_t sequences,
                                               std::int64_t queries, std::int64_t keys);

}  // namespace slimpack
