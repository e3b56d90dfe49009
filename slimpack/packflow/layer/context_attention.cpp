#include "slimpack/packflow/layer/context_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/cost/context_travel.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The rank's place in the zone. Members count from the first one.
std::int32_t own_index(const SharedSlices& shared) {
  return shared.group.index() - shared.zone.first;
}

/// Queries of one member of a slice against keys of one.
class SliceBlock {
 public:
  SliceBlock(const SharedSlices& shared, const Slice& slice, std::int32_t queries_of,
             std::int32_t keys_of)
      : queries_{shared.zone.size, queries_of}, keys_{shared.zone.size, keys_of}, slice_(slice) {}

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

 private:
  RowShare queries_, keys_;
  Slice slice_;
};

/// The keys and values, up to each slice's end, of the rank itself or of a member whose rows visit.
class ZoneKeys {
 public:
  /// The rank's own.
  explicit ZoneKeys(const SharedSlices& shared) : shared_(shared), member_(own_index(shared)) {}
  /// One slice's below the other's, as start_key_visit() sends them.
  ZoneKeys(const SharedSlices& shared, std::int32_t member, KeysValues visiting)
      : shared_(shared), member_(member), visiting_(std::move(visiting)) {
    std::int64_t row = 0;
    for (const Slice& slice : shared.slices) {
      first_.push_back(row);
      row += share().before(slice.end).count();
    }
  }

  [[nodiscard]] std::int32_t member() const { return member_; }
  [[nodiscard]] KeysValues of(std::size_t slice) const {
    const Slice& s = shared_.slices[slice];
    if (!visiting_.k.defined()) return shared_.kv.upto(shared_.layer, s);
    return visiting_.narrow(first_[slice], share().before(s.end).count());
  }

 private:
  [[nodiscard]] RowShare share() const { return {shared_.zone.size, member_}; }

  const SharedSlices& shared_;
  std::int32_t member_;
  KeysValues visiting_;
  std::vector<std::int64_t> first_;  ///< by slice
};

/// Of queries that see no key.
AttentionResult nothing_seen(const at::Tensor& q_TND) {
  return {at::zeros_like(q_TND),
          at::full({q_TND.size(0), q_TND.size(1)}, -std::numeric_limits<double>::infinity(),
                   q_TND.options().dtype(accumulate_type(q_TND)))};
}

AttentionResult partial_result(const SliceBlock& slice, const at::Tensor& q_TND,
                               const KeysValues& kv) {
  const std::int64_t before = slice.before();
  AttentionResult result = before > 0 && q_TND.size(0) > 0
                               ? attend(q_TND, kv.narrow(0, before), Mask::kNone)
                               : nothing_seen(q_TND);
  const SliceBlock::Causal causal = slice.causal();
  if (causal.empty()) return result;
  const auto seeing = [&](const at::Tensor& t) { return t.narrow(0, causal.begin, causal.rows); };
  const AttentionResult block =
      attend(seeing(q_TND), kv.narrow(before, causal.keys), Mask::kCausal);
  seeing(result.lse_TN)
      .copy_(merged({seeing(result.out_TND), seeing(result.lse_TN)}, block).lse_TN);
  return result;
}

/// A member's queries of all slices, one after the other.
AttentionResult partial_results(const SharedSlices& shared, std::int32_t queries_of,
                                const at::Tensor& q_TND, const ZoneKeys& keys) {
  Tensors out, lse;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < shared.slices.size(); ++s) {
    const SliceBlock block(shared, shared.slices[s], queries_of, keys.member());
    AttentionResult result =
        partial_result(block, q_TND.narrow(0, row, block.queries()), keys.of(s));
    row += block.queries();
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

SliceKeyGradients own_key_gradients(const SharedSlices& shared, const Slice& slice) {
  const std::int32_t own_place = own_index(shared);
  const SliceBlock block(shared, slice, own_place, own_place);
  KeysValues sequence = shared.kv.gradient(shared.layer, slice);
  // What later slices left for these tokens is in the store, where the rest is added.
  if (sequence.k.defined()) {
    KeysValues own = sequence.narrow(block.before(), block.keys());
    return {std::move(sequence), std::move(own)};
  }
  const KeysValues own = shared.kv.upto(shared.layer, slice).narrow(block.before(), block.keys());
  return {std::move(sequence),
          {at::zeros_like(own.k, accumulate_type(own.k)),
           at::zeros_like(own.v, accumulate_type(own.v))}};
}

/// Adds to the gradients of a slice's keys what queries give; returns what these get of the keys.
at::Tensor add_slice(const SliceBlock& slice, const QueryRows& q, const KeysValues& kv,
                     const SliceKeyGradients& keys) {
  const std::int64_t before = slice.before();
  at::Tensor dq_TND;
  if (before > 0 && q.q_TND.size(0) > 0) {
    const AttentionGradients on_prefix = attend_backward(q, kv.narrow(0, before), Mask::kNone);
    on_prefix.add_to(keys.sequence);
    dq_TND = on_prefix.dq_TND;
  } else {
    dq_TND = at::zeros_like(q.q_TND);
  }
  const SliceBlock::Causal causal = slice.causal();
  if (causal.empty()) return dq_TND;
  const AttentionGradients block = attend_backward(q.narrow(causal.begin, causal.rows),
                                                   kv.narrow(before, causal.keys), Mask::kCausal);
  dq_TND.narrow(0, causal.begin, causal.rows).add_(block.dq_TND);
  block.add_to(keys.own);
  return dq_TND;
}

/// Likewise of all slices, one after the other.
at::Tensor add_slices(const SharedSlices& shared, std::int32_t queries_of, const QueryRows& queries,
                      const ZoneKeys& keys, const std::vector<SliceKeyGradients>& gradients) {
  Tensors dq;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const SliceBlock block(shared, shared.slices[s], queries_of, keys.member());
    dq.push_back(add_slice(block, queries.narrow(row, block.queries()), keys.of(s), gradients[s]));
    row += block.queries();
  }
  return joined_rows(dq);
}

/// Zeros for the gradients of a visiting member's keys, one slice's below the other's, and of each
/// slice the parts of it.
struct VisitingGradients {
  KeysValues all;
  std::vector<SliceKeyGradients> of_slice;

  VisitingGradients(const SharedSlices& shared, std::int32_t member, const KeysValues& keys)
      : all{at::zeros(keys.k.sizes(), keys.k.options().dtype(accumulate_type(keys.k))),
            at::zeros(keys.v.sizes(), keys.v.options().dtype(accumulate_type(keys.v)))} {
    std::int64_t row = 0;
    for (const Slice& slice : shared.slices) {
      const SliceBlock block(shared, slice, member, member);
      of_slice.push_back(
          {all.narrow(row, block.before()), all.narrow(row + block.before(), block.keys())});
      row += block.before() + block.keys();
    }
  }
};

/// Adds what comes back of the own keys: one slice's below the other's.
void add_returned(const SharedSlices& shared, const KeysValues& returned,
                  const std::vector<SliceKeyGradients>& own) {
  const std::int32_t own_place = own_index(shared);
  std::int64_t row = 0;
  const auto add = [&](const KeysValues& to, std::int64_t rows) {
    if (rows > 0) {
      const KeysValues from = returned.narrow(row, rows);
      to.k.narrow(0, 0, rows).add_(from.k);
      to.v.narrow(0, 0, rows).add_(from.v);
    }
    row += rows;
  };
  for (std::size_t s = 0; s < own.size(); ++s) {
    const SliceBlock block(shared, shared.slices[s], own_place, own_place);
    add(own[s].sequence, block.before());
    add(own[s].own, block.keys());
  }
}

/// The member of the zone that a round brings together with the rank; in round 0 the rank itself.
std::int32_t visitor(const SharedSlices& shared, std::int32_t round) {
  return (own_index(shared) + round) % shared.zone.size;
}

/// A member's queries of the slices.
std::int64_t queries_of(const SharedSlices& shared, std::int32_t member) {
  Tokens rows{0};
  for (const Slice& slice : shared.slices) rows += RowShare{shared.zone.size, member}.rows(slice);
  return rows.count();
}

/// A member's keys up to the ends of the slices.
std::int64_t keys_of(const SharedSlices& shared, std::int32_t member) {
  Tokens rows{0};
  for (const Slice& slice : shared.slices)
    rows += RowShare{shared.zone.size, member}.before(slice.end);
  return rows.count();
}

/// Begins to send copies of own rows `round` places back, and to get those of the round's visitor.
/// Nobody visits after the last round.
void start_query_visit(const SharedSlices& shared, std::int32_t round, const Tensors& own) {
  if (round == shared.zone.size) return;
  Tensors copies;
  for (const at::Tensor& tensor : own) copies.push_back(tensor.clone());
  shared.group.shifts().start_shift(std::move(copies), shared.zone, -round,
                                    queries_of(shared, visitor(shared, round)));
}

/// The same with the own keys and values, one slice's below the other's.
void start_key_visit(const SharedSlices& shared, std::int32_t round) {
  if (round == shared.zone.size) return;
  Tensors k, v;
  for (const Slice& slice : shared.slices) {
    const KeysValues own = shared.kv.upto(shared.layer, slice);
    k.push_back(own.k);
    v.push_back(own.v);
  }
  const auto copied = [](const Tensors& rows) {
    return rows.size() == 1 ? rows[0].clone() : joined_rows(rows);
  };
  Tensors copies{copied(k), copied(v)};
  shared.group.shifts().start_shift(std::move(copies), shared.zone, -round,
                                    keys_of(shared, visitor(shared, round)));
}

Tensors finish_shift(const SharedSlices& shared) {
  return shared.group.shifts().finish_shift(shared.zone);
}

/// Begins to return what a visitor's rows gave, and to get what the own ones gave there.
void start_return(const SharedSlices& shared, std::int32_t round, Tensors given,
                  std::int64_t own_rows) {
  shared.group.shifts().start_shift(std::move(given), shared.zone, round, own_rows);
}

bool sends_keys(const SharedSlices& shared, const at::Tensor& q_TND, bool backward) {
  const KeysValues keys = shared.kv.upto(shared.layer, shared.slices.front());
  const auto element = static_cast<std::int64_t>(q_TND.element_size());
  const auto sum = static_cast<std::int64_t>(at::elementSize(accumulate_type(q_TND)));
  const std::int64_t k = keys.k.size(1) * keys.k.size(2);
  return keys_travel(TravelWidths{.q = q_TND.size(1) * q_TND.size(2) * element,
                                  .k = k * element,
                                  .lse = q_TND.size(1) * sum,
                                  .gradients = 2 * k * sum},
                     shared.slices, backward);
}

Tensors tensors_of(const QueryRows& rows) {
  return {rows.dout_TND, rows.q_TND, rows.out_TND, rows.lse_TN};
}

}  // namespace

// Rows leave a round before they are attended to, and what they gave comes back a round later, so
// that both travel while a member attends to other rows. All members take shifts in this order: the
// visit of round 1; in each round the next visit and, after the own one, what the visitor's rows
// gave. Only what the last ones gave is waited for at once.
ContextForward::ContextForward(const SharedSlices& shared, at::Tensor q_TND)
    : shared_(shared), q_TND_(std::move(q_TND)), keys_travel_(sends_keys(shared_, q_TND_, false)) {
  if (keys_travel_)
    start_key_visit(shared_, 1);
  else
    start_query_visit(shared_, 1, {q_TND_});
}

void ContextForward::run(std::int32_t round) {
  if (round > 0) return keys_travel_ ? receive_keys(round) : receive_queries(round);
  // Every query sees its own key: the own part is finite.
  result_ = partial_results(shared_, own_index(shared_), q_TND_, ZoneKeys(shared_));
}

void ContextForward::receive_queries(std::int32_t round) {
  Tensors visiting = finish_shift(shared_);
  start_query_visit(shared_, round + 1, {q_TND_});
  AttentionResult part =
      partial_results(shared_, visitor(shared_, round), std::move(visiting[0]), ZoneKeys(shared_));
  visiting.clear();
  if (round > 1) merge_returned();
  Tensors given;  // nothing else keeps them: they are the receiver's
  given.push_back(std::move(part.out_TND));
  given.push_back(std::move(part.lse_TN));
  start_return(shared_, round, std::move(given), q_TND_.size(0));
  if (round + 1 == rounds()) merge_returned();
}

void ContextForward::merge_returned() {
  const Tensors back = finish_shift(shared_);
  result_ = merged(std::move(result_), {back[0], back[1]});
}

void ContextForward::receive_keys(std::int32_t round) {
  Tensors visiting = finish_shift(shared_);
  start_key_visit(shared_, round + 1);
  const ZoneKeys keys(shared_, visitor(shared_, round),
                      {std::move(visiting[0]), std::move(visiting[1])});
  result_ = merged(std::move(result_), partial_results(shared_, own_index(shared_), q_TND_, keys));
}

ContextBackward::ContextBackward(const SharedSlices& shared, QueryRows rows)
    : shared_(shared),
      rows_(std::move(rows)),
      keys_travel_(sends_keys(shared_, rows_.q_TND, true)) {
  if (keys_travel_)
    start_key_visit(shared_, 1);
  else
    start_query_visit(shared_, 1, tensors_of(rows_));
}

void ContextBackward::run(std::int32_t round) {
  if (round > 0) return keys_travel_ ? receive_keys(round) : receive_queries(round);
  for (const Slice& slice : shared_.slices) keys_.push_back(own_key_gradients(shared_, slice));
  dq_TND_ = add_slices(shared_, own_index(shared_), rows_, ZoneKeys(shared_), keys_)
                .to(accumulate_type(rows_.q_TND));
}

void ContextBackward::receive_queries(std::int32_t round) {
  Tensors visiting = finish_shift(shared_);
  start_query_visit(shared_, round + 1, tensors_of(rows_));
  at::Tensor part_TND =
      add_slices(shared_, visitor(shared_, round),
                 {visiting[0], visiting[1], visiting[2], visiting[3]}, ZoneKeys(shared_), keys_);
  visiting.clear();
  if (round > 1) add_returned_queries();
  Tensors given;
  given.push_back(std::move(part_TND));
  start_return(shared_, round, std::move(given), dq_TND_.size(0));
  if (round + 1 == rounds()) add_returned_queries();
}

void ContextBackward::add_returned_queries() {
  dq_TND_.add_(finish_shift(shared_)[0]);
}

void ContextBackward::receive_keys(std::int32_t round) {
  const std::int32_t member = visitor(shared_, round);
  Tensors given;
  {
    Tensors visiting = finish_shift(shared_);
    start_key_visit(shared_, round + 1);
    const KeysValues kv{std::move(visiting[0]), std::move(visiting[1])};
    VisitingGradients gradients(shared_, member, kv);
    dq_TND_.add_(add_slices(shared_, own_index(shared_), rows_, ZoneKeys(shared_, member, kv),
                            gradients.of_slice));
    given.push_back(std::move(gradients.all.k));
    given.push_back(std::move(gradients.all.v));
  }
  if (round > 1) add_returned_keys();
  start_return(shared_, round, std::move(given), keys_of(shared_, own_index(shared_)));
  if (round + 1 == rounds()) add_returned_keys();
}

void ContextBackward::add_returned_keys() {
  const Tensors back = finish_shift(shared_);
  add_returned(shared_, {back[0], back[1]}, keys_);
}

AttentionGradients ContextBackward::take() {
  Tensors k, v;
  for (const SliceKeyGradients& slice : keys_) {
    k.push_back(slice.own.k);
    v.push_back(slice.own.v);
  }
  keys_.clear();
  rows_ = {};
  return {std::move(dq_TND_), joined_rows(k), joined_rows(v)};
}

}  // namespace slimpack
