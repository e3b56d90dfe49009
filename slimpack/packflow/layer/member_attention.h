// Attention of a slice's queries of one member of a zone against the keys of one member
// (context_attention.h). Each holds every g-th token.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Queries of one member of a slice against keys of one.
class SliceBlock {
 public:
  /// `queries_of` and `keys_of` are members of the zone, `window` is the layer's (LayerShape).
  SliceBlock(const Zone& zone, const Slice& slice, std::int32_t queries_of, std::int32_t keys_of,
             std::int64_t window)
      : queries_{zone.size, queries_of},
        keys_{zone.size, keys_of},
        slice_(slice),
        window_(window) {}

  [[nodiscard]] std::int64_t queries() const { return queries_.rows(slice_).count(); }
  /// Keys of the sequence before the slice, and of the slice.
  [[nodiscard]] std::int64_t before() const { return keys_.before(slice_.begin).count(); }
  [[nodiscard]] std::int64_t keys() const { return keys_.rows(slice_).count(); }

  /// Queries [begin, begin + rows), which see keys of the slice [0, keys) causally.
  struct Causal {
    std::int64_t begin, rows, keys;
    [[nodiscard]] bool empty() const { return rows <= 0 || keys <= 0; }
  };
  [[nodiscard]] Causal causal() const {
    // The first query that stands before the first key sees none.
    const std::int64_t begin = queries_.first(slice_) < keys_.first(slice_) ? 1 : 0;
    const std::int64_t count = queries() - begin;
    return {begin, count, std::min(count, keys())};
  }

  /// The queries that see keys, as a slice of the member that has the keys. Query i of member j
  /// stands at j + g·i, key m of member r at r + g·m. So with a window of w keys the query sees
  /// ⌈(w + r − j) / g⌉ keys, one less where r > j. The last of them has the query's number, or the
  /// number before.
  struct Windowed {
    std::int64_t begin, rows;  ///< queries
    std::int64_t prefix;       ///< keys before the last one that the first of them sees
    std::int64_t window;       ///< of the member's keys; 0 = none is seen

    [[nodiscard]] bool empty() const { return rows <= 0 || window == 0; }
    [[nodiscard]] std::int64_t keys() const { return prefix + rows; }
  };
  /// REQUIRES: has_window().
  [[nodiscard]] Windowed windowed() const {
    const std::int64_t earlier = causal().begin;  // 1: the first query's last key is in the prefix
    const std::int64_t blind = before() < earlier ? 1 : 0;
    const std::int64_t g = queries_.replicas, ahead = keys_.index - queries_.index;
    const std::int64_t seen = (window_ + ahead + g - 1) / g - (ahead > 0 ? 1 : 0);
    return {blind, queries() - blind, before() - earlier + blind, seen};
  }
  [[nodiscard]] bool has_window() const { return window_ > 0; }

 private:
  RowShare queries_, keys_;
  Slice slice_;
  std::int64_t window_;
};

/// Gradients of one slice's keys and values, to which the queries of all members add.
struct SliceKeyGradients {
  KeysValues sequence;  ///< of the own keys of the sequence so far
  KeysValues own;       ///< of those of the slice
};

/// The queries' attention to these keys alone. `kv`: of the sequence up to the slice's end.
[[nodiscard]] AttentionResult partial_result(const SliceBlock& slice, const at::Tensor& q_TND,
                                             const KeysValues& kv);

/// Adds the gradients that queries give to a slice's keys and values. Returns the gradients of the
/// queries.
[[nodiscard]] at::Tensor add_slice(const SliceBlock& slice, const QueryRows& q,
                                   const KeysValues& kv, const SliceKeyGradients& keys);

}  // namespace slimpack
