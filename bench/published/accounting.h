// The memory of other programs, as their papers and sources count it. Bytes of one rank.
#pragma once

#include <cstdint>

#include "bench/published/job.h"

namespace slimpack::bench {

/// The bytes that a layer keeps of a token. With t tensor-parallel ranks, h hidden dimensions, k of
/// keys, f of the MLP, sequences of s tokens and a query heads, and everything kept:
///  - Megatron 2022: h · (10 + 24/t) + 5as/t, of 16-bit activations and dropout masks of one byte
///    (arXiv:2205.05198, equations 1, 2 and 4); with sequence sharding all of it ÷ t.
///  - Others: inputs and outputs of two norms, 8h; queries, keys, values and attention's output,
///    4h + 4k; of a gated MLP gate, up and their product, 6f, or with separate kernels silu(gate),
///    too, 8f. The first are whole on each rank without sequence sharding, the rest ÷ t.
/// Without scores 5as/t is left out. A program that keeps the input alone has 2h. torchtitan's
/// selective op keeps input, queries, values, gate, attention's and the MLP's output: 8h + 2k + 2f.
[[nodiscard]] double row_bytes(const PublishedJob& job);

/// Weights, gradients and optimizer of all stages of the rank: 2 + 4 + 12 bytes a parameter, of
/// which replicas share the 12 with ZeRO-1. Fully sharded: 16, all shared, and the largest two
/// buckets whole in 16 bits.
[[nodiscard]] double state_bytes(const PublishedJob& job, std::int32_t rank);

/// The bytes that one MicroPack needs while it runs, beyond its kept bytes, on the last rank the
/// larger of two:
///  - in a layer, the whole layer where it runs again, and but for Megatron 2022, whose paper
///    counts none, the gradients of gate and up (4f a token) and of their weights (8fh, fp32);
///  - logits in 16 bits and fp32 with their gradients (12 bytes), where the loss is one kernel in
///    16 bits alone (4).
[[nodiscard]] double working_bytes(const PublishedJob& job, std::int32_t rank);

}  // namespace slimpack::bench
