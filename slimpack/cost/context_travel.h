// What travels around a zone (packflow/layer/context_attention.h): queries and their results, or
// keys and values. Engine and memory model decide by the same rule.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/workload/slice.h"

namespace slimpack {

/// Bytes of a token's tensors on one rank. The output is as wide as q, v as wide as k.
struct TravelWidths {
  std::int64_t q, k, lse;
  std::int64_t gradients;  ///< of k and v, in the accumulate type
};

/// What one member sends to another one and gets back, in a zone of g members, times g.
struct TravelBytes {
  double queries = 0;  ///< forward q; output and log-sum-exp. Backward dO, q, O, log-sum-exp; dq
  double keys = 0;     ///< k and v of all tokens so far; backward their gradients come back
};

[[nodiscard]] inline TravelBytes travel_bytes(const TravelWidths& w, std::span<const Slice> slices,
                                              bool backward) {
  double rows = 0, keys = 0;
  for (const Slice& slice : slices) {
    rows += static_cast<double>(slice.length().count());
    keys += static_cast<double>(slice.end.count());
  }
  return {rows * static_cast<double>((backward ? 4 : 2) * w.q + w.lse),
          keys * static_cast<double>(2 * w.k + (backward ? w.gradients : 0))};
}

/// Whether keys and values travel in a pass of slices: where they have fewer bytes. With grouped
/// queries that is so for slices with short prefixes.
[[nodiscard]] inline bool keys_travel(const TravelWidths& w, std::span<const Slice> slices,
                                      bool backward) {
  const TravelBytes bytes = travel_bytes(w, slices, backward);
  return bytes.keys < bytes.queries;
}

}  // namespace slimpack
