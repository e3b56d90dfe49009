// Context attention: attention of slices by all replicas of their zone (plan/slice.h).
//
// Each of g replicas holds every g-th token of a sequence (plan/row_share.h). A pass has g rounds:
// in the first a member's queries meet its own keys, in each further one those of another member.
// CpCommType says how queries and keys come together. Straight from each member to each other one,
// the rows with fewer bytes travel (cost/attention_rules.h):
//  - Queries: keys and values stay, partial results come back and are merged by their log-sum-exp.
//    The bytes that are sent do not grow with the prefix.
//  - Keys and values of all tokens so far, which with grouped queries are narrow. Queries stay, and
//    in backward the gradients of the sent rows come back.
// In a ring each member passes keys and values on to the next one, and backward their gradients, to
// which each has added. Gathered keys and values all come before the first round. Rows of one other
// member visit at a time, while rows of the next member come and the results of the last member's
// rows return. So the held bytes do not grow with g, and a member hardly waits where attention
// takes longer than messages do. Queries of member j against keys of member r are causal again, row
// by row, when j's first position of the slice is no earlier than r's, and causal without the
// diagonal otherwise (striped attention, arXiv:2311.09431): no work is masked away. A window of
// keys of the sequence is a window of about a g-th as many keys of one member.
//
// Passes of several zones take turns, round by round, so that one computes while another one's rows
// travel.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/stores/kv_store.h"
#include "slimpack/plan/row_share.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/context_parallel.h"

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

/// The slices that a zone of several members shares, in one layer. References. All members make the
/// same passes; members of several zones take their rounds in the same order of zones.
struct SharedSlices {
  std::span<const Slice> slices;
  Zone zone;          ///< of members of the group
  Collective& group;  ///< the replicas that run the MicroPack
  KvStore& kv;
  std::size_t layer;
  CpCommType type;
  std::int64_t window;  ///< of the layer (LayerShape)
};

/// The rows that travel in a pass, and the way that they take.
enum class Travelling : std::uint8_t {
  kQueries,   ///< straight
  kKeys,      ///< straight
  kRing,      ///< keys, from each member to the next one
  kGathered,  ///< keys, all at once
};

/// The keys and values that visit a member, round by round.
class VisitingKeys {
 public:
  /// Sends the keys and values of the first round. REQUIRES: no queries travel.
  VisitingKeys(const SharedSlices& shared, Travelling travelling);

  /// Waits for the keys that come before the first round.
  void gather();
  /// The keys and values of the round's visitor, those of one slice below those of another. Sends
  /// the next ones. REQUIRES: called with 1, 2, … zone.size − 1.
  [[nodiscard]] KeysValues take(std::int32_t round);

 private:
  SharedSlices shared_;
  Travelling travelling_;
  std::vector<std::vector<at::Tensor>> gathered_;  ///< by round − 1
};

/// Output and log-sum-exp of the own queries, those of all slices in their order.
class ContextForward {
 public:
  /// Sends the first rows.
  ContextForward(const SharedSlices& shared, at::Tensor q_TND);

  [[nodiscard]] std::int32_t rounds() const { return shared_.zone.size; }
  /// REQUIRES: called with 0, 1, … rounds() − 1.
  void run(std::int32_t round);
  /// The result. REQUIRES: called after the last round.
  [[nodiscard]] AttentionResult take() { return std::move(result_); }

 private:
  void receive_queries(std::int32_t round);
  void receive_keys(std::int32_t round);
  void merge_returned();

  SharedSlices shared_;
  at::Tensor q_TND_;
  std::optional<VisitingKeys> keys_;  ///< nullopt: queries travel
  AttentionResult result_;
};

/// Gradients of the own queries, keys and values: as of the whole sequence. Adds to the store's
/// gradients of the slices' prefixes; what later slices left there for the slices is included. The
/// result is in the accumulate type.
class ContextBackward {
 public:
  /// `rows`: those of the own queries. Sends the rows of the first round.
  ContextBackward(const SharedSlices& shared, QueryRows rows);

  [[nodiscard]] std::int32_t rounds() const { return shared_.zone.size; }
  /// Runs a round, as ContextForward::run does.
  void run(std::int32_t round);
  [[nodiscard]] AttentionGradients take();

 private:
  void receive_queries(std::int32_t round);
  void receive_keys(std::int32_t round);
  /// Gradients of the keys and values of the round's visitor, by the own queries.
  [[nodiscard]] KeysValues gradients_of_visitor(std::int32_t round);
  /// Adds to a ring's gradients of visiting keys what this member gives, and sends them to the next
  /// member.
  void pass_on(std::int32_t round, KeysValues given);
  /// Sends the gradients of all gathered keys to the members that have the keys.
  void return_gathered();
  void add_returned_queries();
  void add_returned_keys();

  SharedSlices shared_;
  QueryRows rows_;
  Travelling travelling_;
  std::optional<VisitingKeys> visiting_;           ///< nullopt: queries travel
  std::vector<std::vector<at::Tensor>> gathered_;  ///< gradients of gathered keys, by round − 1
  std::vector<SliceKeyGradients> keys_;            ///< by slice
  at::Tensor dq_TND_;
};

}  // namespace slimpack
