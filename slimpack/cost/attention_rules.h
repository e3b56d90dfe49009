// Attention rules, by which the runtime and the memory model both decide: what travels around a
// zone (packflow/layer/context_attention.h), which slices one call of flash attention takes, and
// the blocks of queries of a kernel that computes the scores of all keys of a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/plan/slice.h"
#include "slimpack/spec/context_parallel.h"

namespace slimpack {

/// Bytes of a token's tensors on one rank. The output is as wide as q, v as wide as k.
struct TravelWidths {
  std::int64_t q, k, lse;
  std::int64_t gradients;  ///< of k and v, in the accumulate type
  CpCommType type = CpCommType::kDirect;

  /// Bytes that a pass sends and gets back for one query. Forward sends q; output and log-sum-exp
  /// come back. Backward sends dO, q, O and the log-sum-exp; dq comes back.
  [[nodiscard]] std::int64_t query_bytes(bool backward) const {
    return (backward ? 4 : 2) * q + lse;
  }
  /// Bytes that a pass sends and gets back for one key. Each pass sends k and v. In backward their
  /// gradients come back.
  [[nodiscard]] std::int64_t key_bytes(bool backward) const {
    return 2 * k + (backward ? gradients : 0);
  }
};

/// Whether keys and values of all tokens so far travel in a pass of slices: where they have fewer
/// bytes, or nothing else does. With grouped queries they have for slices with short prefixes.
[[nodiscard]] inline bool keys_travel(const TravelWidths& w, std::span<const Slice> slices,
                                      bool backward) {
  if (w.type != CpCommType::kDirect) return true;
  std::int64_t queries = 0, keys = 0;
  for (const Slice& slice : slices) {
    queries += slice.length().count() * w.query_bytes(backward);
    keys += slice.end.count() * w.key_bytes(backward);
  }
  return keys < queries;
}

/// Bytes of keys and values that are copied as fast as a call is launched: a GPU moves 2.7 TB/s, a
/// copy reads and writes, and a call of a slice takes 24 µs (attention_slice_us of
/// hardware/h100-fa2.toml).
inline constexpr std::int64_t kBytesOfACall = 32 << 20;

/// How many of the first slices, at least one. Slices without a prefix join: their keys lie side by
/// side. Those of slices with a prefix lie in tensors of their sequences and are copied. So where
/// one has a prefix, as many join as calls are saved for whose time their keys, `key_bytes` a
/// token, can be copied. `alone`: a slice of these that joins no other. REQUIRES: a slice.
[[nodiscard]] inline std::size_t joined_slices(std::span<const Slice> slices,
                                               std::int64_t key_bytes,
                                               std::optional<std::size_t> alone = std::nullopt) {
  const auto prefix = [&](std::size_t s) { return slices[s].begin > Tokens(0); };
  std::int64_t copied = slices.front().end.count() * key_bytes;
  bool any_prefix = prefix(0);
  std::size_t joined = 1;
  if (alone == 0) return joined;
  for (; joined < slices.size() && alone != joined; ++joined) {
    copied += slices[joined].end.count() * key_bytes;
    any_prefix = any_prefix || prefix(joined);
    if (any_prefix && copied > static_cast<std::int64_t>(joined) * kBytesOfACall) break;
  }
  return joined;
}

/// Queries [row, row + rows) of a slice, and the keys from the first that one of them sees to the
/// last one's own.
struct WindowBlock {
  std::int64_t row = 0, rows = 0;
  std::int64_t first_key = 0, keys = 0;  ///< counted from the first that the slice sees
  bool masked = true;  ///< the window hides keys of the block from some of its queries
};

/// `before`: keys that the slice's first query sees before its own. The first queries, from which
/// the window hides nothing, are one block. Further blocks compute for each query as many scores
/// too many as the block has queries. So narrow windows take short blocks; with wide ones longer
/// calls gain more than that. REQUIRES: before < window.
[[nodiscard]] inline std::vector<WindowBlock> window_blocks(std::int64_t before,
                                                            std::int64_t queries,
                                                            std::int64_t window) {
  const std::int64_t most = window < 1024 ? 64 : 192;
  std::vector<WindowBlock> blocks;
  std::int64_t row = std::min(queries, window - 1 - before);
  if (row > 0) blocks.push_back({0, row, 0, before + row, false});
  for (; row < queries; row += most) {
    const std::int64_t rows = std::min(most, queries - row);
    blocks.push_back({row, rows, before + row - (window - 1), window - 1 + rows});
  }
  return blocks;
}

}  // namespace slimpack
