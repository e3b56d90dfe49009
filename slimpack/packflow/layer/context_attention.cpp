#include "slimpack/packflow/layer/context_attention.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;

/// A slice as one member sees it: its own keys, and every member's queries. Members count from the
/// first one of the zone.
class SliceBlocks {
 public:
  SliceBlocks(const SharedSlices& shared, const Slice& slice)
      : members_(shared.zone.size),
        index_(shared.group.index() - shared.zone.first),
        slice_(slice) {}

  [[nodiscard]] std::int64_t rows(std::int32_t member) const {
    return share(member).rows(slice_).count();
  }
  [[nodiscard]] std::int64_t own_before() const {
    return share(index_).before(slice_.begin).count();
  }
  [[nodiscard]] std::int64_t own_rows() const { return rows(index_); }

  /// Queries of the slice by member [begin, begin + rows), which see own keys of the slice
  /// [0, keys) causally.
  struct Causal {
    std::int64_t begin, rows, keys;
    [[nodiscard]] bool empty() const { return rows <= 0 || keys <= 0; }
  };
  [[nodiscard]] Causal causal(std::int32_t member) const {
    // The first query of a member that stands before the own first key sees none.
    const std::int64_t begin = share(member).first(slice_) < share(index_).first(slice_) ? 1 : 0;
    const std::int64_t count = rows(member) - begin;
    return {begin, count, std::min(count, own_rows())};
  }

 private:
  [[nodiscard]] RowShare share(std::int32_t member) const { return {members_, member}; }

  std::int32_t members_;
  std::int32_t index_;
  Slice slice_;
};

/// Of queries that see no key.
AttentionResult nothing_seen(const at::Tensor& q_TND) {
  return {at::zeros_like(q_TND),
          at::full({q_TND.size(0), q_TND.size(1)}, -std::numeric_limits<double>::infinity(),
                   q_TND.options().dtype(accumulate_type(q_TND)))};
}

/// A member's queries of one slice against the own keys and values of the sequence so far.
AttentionResult partial_result(const SliceBlocks& blocks, std::int32_t member,
                               const at::Tensor& q_TND, const KeysValues& kv) {
  const std::int64_t before = blocks.own_before();
  AttentionResult result = before > 0 && q_TND.size(0) > 0
                               ? attend(q_TND, kv.narrow(0, before), Mask::kNone)
                               : nothing_seen(q_TND);
  const SliceBlocks::Causal causal = blocks.causal(member);
  if (causal.empty()) return result;
  const auto seeing = [&](const at::Tensor& t) { return t.narrow(0, causal.begin, causal.rows); };
  const AttentionResult block =
      attend(seeing(q_TND), kv.narrow(before, causal.keys), Mask::kCausal);
  seeing(result.lse_TN)
      .copy_(merged({seeing(result.out_TND), seeing(result.lse_TN)}, block).lse_TN);
  return result;
}

/// Likewise of all slices, one after the other.
AttentionResult partial_results(const SharedSlices& shared, std::int32_t member,
                                const at::Tensor& q_TND) {
  Tensors out, lse;
  std::int64_t row = 0;
  for (const Slice& slice : shared.slices) {
    const SliceBlocks blocks(shared, slice);
    AttentionResult result =
        partial_result(blocks, member, q_TND.narrow(0, row, blocks.rows(member)),
                       shared.kv.upto(shared.layer, slice));
    row += blocks.rows(member);
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

SliceKeyGradients slice_key_gradients(const SharedSlices& shared, const Slice& slice) {
  const SliceBlocks blocks(shared, slice);
  KeysValues sequence = shared.kv.gradient(shared.layer, slice);
  // What later slices left for these tokens is in the store, where the rest is added.
  if (sequence.k.defined()) {
    KeysValues own = sequence.narrow(blocks.own_before(), blocks.own_rows());
    return {std::move(sequence), std::move(own)};
  }
  const KeysValues own =
      shared.kv.upto(shared.layer, slice).narrow(blocks.own_before(), blocks.own_rows());
  return {std::move(sequence),
          {at::zeros_like(own.k, accumulate_type(own.k)),
           at::zeros_like(own.v, accumulate_type(own.v))}};
}

/// Adds to the gradients of a slice's keys what a member's queries give; returns what these get of
/// the own keys.
at::Tensor add_slice(const SliceBlocks& blocks, std::int32_t member, const QueryRows& q,
                     const KeysValues& kv, const SliceKeyGradients& keys) {
  const std::int64_t before = blocks.own_before();
  at::Tensor dq_TND;
  if (before > 0 && q.q_TND.size(0) > 0) {
    const AttentionGradients on_prefix = attend_backward(q, kv.narrow(0, before), Mask::kNone);
    on_prefix.add_to(keys.sequence);
    dq_TND = on_prefix.dq_TND;
  } else {
    dq_TND = at::zeros_like(q.q_TND);
  }
  const SliceBlocks::Causal causal = blocks.causal(member);
  if (causal.empty()) return dq_TND;
  const AttentionGradients block = attend_backward(q.narrow(causal.begin, causal.rows),
                                                   kv.narrow(before, causal.keys), Mask::kCausal);
  dq_TND.narrow(0, causal.begin, causal.rows).add_(block.dq_TND);
  block.add_to(keys.own);
  return dq_TND;
}

/// Likewise of all slices, one after the other.
at::Tensor add_slices(const SharedSlices& shared, std::int32_t member, const QueryRows& queries,
                      const std::vector<SliceKeyGradients>& keys) {
  Tensors dq;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const Slice& slice = shared.slices[s];
    const SliceBlocks blocks(shared, slice);
    dq.push_back(add_slice(blocks, member, queries.narrow(row, blocks.rows(member)),
                           shared.kv.upto(shared.layer, slice), keys[s]));
    row += blocks.rows(member);
  }
  return joined_rows(dq);
}

/// The member of the zone whose queries visit in a round; in round 0 the rank itself.
std::int32_t visitor(const SharedSlices& shared, std::int32_t round) {
  return (shared.group.index() - shared.zone.first + round) % shared.zone.size;
}

/// A member's queries of the slices.
std::int64_t rows_of(const SharedSlices& shared, std::int32_t member) {
  Tokens rows{0};
  for (const Slice& slice : shared.slices) rows += RowShare{shared.zone.size, member}.rows(slice);
  return rows.count();
}

/// Begins to send copies of own rows `round` places back, and to get those of the round's visitor.
/// Nobody visits after the last round.
void start_visit(const SharedSlices& shared, std::int32_t round, const Tensors& own) {
  if (round == shared.zone.size) return;
  Tensors copies;
  for (const at::Tensor& tensor : own) copies.push_back(tensor.clone());
  shared.group.shifts().start_shift(std::move(copies), shared.zone, -round,
                                    rows_of(shared, visitor(shared, round)));
}

Tensors finish_shift(const SharedSlices& shared) {
  return shared.group.shifts().finish_shift(shared.zone);
}

/// Returns what a visitor's rows gave, and gets what the own rows gave at another member.
Tensors give_back(const SharedSlices& shared, std::int32_t round, Tensors given, const Tensors& own,
                  std::int64_t own_rows) {
  shared.group.shifts().start_shift(std::move(given), shared.zone, round, own_rows);
  start_visit(shared, round + 1, own);
  return finish_shift(shared);
}

}  // namespace

// Own queries leave before the member attends to its own keys, and those for the next member
// together with the last visitor's result. So a member waits g times, the first time hardly at all.
ContextForward::ContextForward(const SharedSlices& shared, at::Tensor q_TND)
    : shared_(shared), q_TND_(std::move(q_TND)) {
  start_visit(shared_, 1, {q_TND_});
}

void ContextForward::run(std::int32_t round) {
  if (round == 0) {
    // Every query sees its own key: the own part is finite.
    result_ = partial_results(shared_, visitor(shared_, 0), q_TND_);
    return;
  }
  AttentionResult part =
      partial_results(shared_, visitor(shared_, round), finish_shift(shared_)[0]);
  Tensors given;  // nothing else keeps them: they are the receiver's
  given.push_back(std::move(part.out_TND));
  given.push_back(std::move(part.lse_TN));
  const Tensors back = give_back(shared_, round, std::move(given), {q_TND_}, q_TND_.size(0));
  result_ = merged(std::move(result_), {back[0], back[1]});
}

ContextBackward::ContextBackward(const SharedSlices& shared, QueryRows rows)
    : shared_(shared), rows_(std::move(rows)) {
  start_visit(shared_, 1, {rows_.dout_TND, rows_.q_TND, rows_.out_TND, rows_.lse_TN});
}

void ContextBackward::run(std::int32_t round) {
  if (round == 0) {
    for (const Slice& slice : shared_.slices) keys_.push_back(slice_key_gradients(shared_, slice));
    dq_TND_ =
        add_slices(shared_, visitor(shared_, 0), rows_, keys_).to(accumulate_type(rows_.q_TND));
    return;
  }
  Tensors visiting = finish_shift(shared_);
  at::Tensor part_TND = add_slices(shared_, visitor(shared_, round),
                                   {visiting[0], visiting[1], visiting[2], visiting[3]}, keys_);
  visiting.clear();
  Tensors given;
  given.push_back(std::move(part_TND));
  const Tensors own{rows_.dout_TND, rows_.q_TND, rows_.out_TND, rows_.lse_TN};
  dq_TND_.add_(give_back(shared_, round, std::move(given), own, dq_TND_.size(0))[0]);
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
