// The choice of what travels around a zone (packflow/layer/context_attention.h): queries and their
// results, or keys and values. Engine, memory model and cost model decide by the same rule.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace slimpack
