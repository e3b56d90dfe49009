// Peak bytes of FlashAttention: what the memory model counts on a GPU instead of the CPU kernel's
// tiles. Sizes of release 2 are those of libtorch's
// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp; those of 4 are those of
// packflow/kernels/fa4_workspace.h, and 3 has the same sums. All with deterministic algorithms;
// others take less.
#pragma once

#include <cstdint>

#include "slimpack/cost/layer_widths.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Whether the kernel takes heads of this dimension.
[[nodiscard]] bool flash_takes(std::int64_t head_dim);

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

/// The peaks that attention_forward_transient and attention_backward_transient give, for packs that
/// no other replica takes part in. Neighbours that joined_slices.h joins are one call.
[[nodiscard]] std::int64_t flash_forward_transient(const LayerWidths& w, const MicroPack& pack);
[[nodiscard]] std::int64_t flash_backward_transient(const LayerWidths& w, const MicroPack& pack,
                                                    const SequenceLengths& lengths);

}  // namespace slimpack
