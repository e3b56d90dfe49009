// Attention of a slice where some heads see kept keys alone.
//
//   1. A head's columns are packed once. A block of queries sees the lowest of them, so it reads a
//      view of the pack.
//   2. A block of queries attends to itself, causally,
//   3. to the longest of its runs, which is a view of the keys and values,
//   4. and to the pack of columns, or to its other runs, which are packed for it.
//   5. The three results are merged by log-sum-exp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/sparse/kept_keys.h"

namespace slimpack {

/// Attention of each query head on its kept keys; a head without any attends to all. `kept` is
/// indexed by head, `kv` are those of the sequence up to the slice's end. Heads and blocks run on
/// all threads that libtorch uses. REQUIRES: as attention_forward; a head's keys lie end to end,
/// its values too; kept keys are of these queries.
[[nodiscard]] AttentionResult block_attention(const at::Tensor& q_TND, const KeysValues& kv,
                                              const QueryBlocks& queries,
                                              std::span<const std::optional<KeptKeys>> kept);

/// Keys and values of one head.
[[nodiscard]] KeysValues keys_of_head(const at::Tensor& q_TND, const KeysValues& kv,
                                      std::int64_t head);

/// Keys and values in which those of each head lie end to end. Not copied if they already do.
/// Blocks of 128 queries read other keys at three quarters of the speed, and copying costs less
/// than that.
[[nodiscard]] KeysValues heads_end_to_end(const KeysValues& kv);

/// The calls of one block besides its own block, and the keys that are copied for them.
struct BlockCalls {
  std::int64_t calls = 0;
  std::int64_t packed_keys = 0;
};
[[nodiscard]] BlockCalls calls_of(const BlockKeys& block);

/// Rows of one head's keys and values, those of `runs` one below the other.
[[nodiscard]] KeysValues packed(const KeysValues& kv, std::span<const KeyRun> runs);

}  // namespace slimpack
