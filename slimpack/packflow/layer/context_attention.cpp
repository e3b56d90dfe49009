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

/// A slice as one member sees it: its own keys, and every member's queries.
class SliceBlocks {
 public:
  SliceBlocks(const MergedPack& merged, const Slice& slice)
      : members_(merged.group.size()), index_(merged.group.index()), slice_(slice) {}

  [[nodiscard]] std::int64_t rows(std::int32_t member) const {
    return share(member).rows(slice_).count();
  }
  [[nodiscard]] std::int64_t own_before() const {
    return share(index_).before(slice_.begin).count();
  }
  [[nodiscard]] std::int64_t own_rows() const { return rows(index_); }
  [[nodiscard]] std::int32_t members() const { return members_; }

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
AttentionResult partial_results(const MergedPack& m, std::int32_t member, const at::Tensor& q_TND) {
  Tensors out, lse;
  std::int64_t row = 0;
  for (const Slice& slice : m.pack.slices) {
    const SliceBlocks blocks(m, slice);
    AttentionResult result = partial_result(
        blocks, member, q_TND.narrow(0, row, blocks.rows(member)), m.kv.upto(m.layer, slice));
    row += blocks.rows(member);
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

/// Gradients of the own keys and values, to which the queries of all members add.
class KeyGradients {
 public:
  explicit KeyGradients(const MergedPack& m) : m_(m) {
    for (const Slice& slice : m.pack.slices) {
      const SliceBlocks blocks(m, slice);
      const KeysValues own =
          m.kv.upto(m.layer, slice).narrow(blocks.own_before(), blocks.own_rows());
      const KeysValues& sequence = sequences_.emplace_back(m.kv.gradient(m.layer, slice));
      // What later slices left for these tokens is in the store, where the rest is added.
      own_.push_back(sequence.k.defined()
                         ? sequence.narrow(blocks.own_before(), blocks.own_rows())
                         : KeysValues{at::zeros_like(own.k, accumulate_type(own.k)),
                                      at::zeros_like(own.v, accumulate_type(own.v))});
    }
  }

  /// Adds those that a member's queries give; returns what these get of the own keys.
  at::Tensor add(std::int32_t member, const QueryRows& queries) {
    Tensors dq;
    std::int64_t row = 0;
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      const Slice& slice = m_.pack.slices[s];
      const SliceBlocks blocks(m_, slice);
      dq.push_back(add_slice(blocks, member, queries.narrow(row, blocks.rows(member)),
                             m_.kv.upto(m_.layer, slice), sequences_[s], own_[s]));
      row += blocks.rows(member);
    }
    return joined_rows(dq);
  }

  /// Of the slices' own rows, one after the other, in the accumulate type.
  [[nodiscard]] KeysValues own() const {
    Tensors k, v;
    for (const KeysValues& slice : own_) {
      k.push_back(slice.k);
      v.push_back(slice.v);
    }
    return {joined_rows(k), joined_rows(v)};
  }

 private:
  static at::Tensor add_slice(const SliceBlocks& blocks, std::int32_t member, const QueryRows& q,
                              const KeysValues& kv, const KeysValues& sequence,
                              const KeysValues& own) {
    const std::int64_t before = blocks.own_before();
    at::Tensor dq_TND;
    if (before > 0 && q.q_TND.size(0) > 0) {
      const AttentionGradients on_prefix = attend_backward(q, kv.narrow(0, before), Mask::kNone);
      on_prefix.add_to(sequence);
      dq_TND = on_prefix.dq_TND;
    } else {
      dq_TND = at::zeros_like(q.q_TND);
    }
    const SliceBlocks::Causal causal = blocks.causal(member);
    if (causal.empty()) return dq_TND;
    const AttentionGradients block = attend_backward(q.narrow(causal.begin, causal.rows),
                                                     kv.narrow(before, causal.keys), Mask::kCausal);
    dq_TND.narrow(0, causal.begin, causal.rows).add_(block.dq_TND);
    block.add_to(own);
    return dq_TND;
  }

  const MergedPack& m_;
  std::vector<KeysValues> sequences_;  ///< by slice, of the whole sequence
  std::vector<KeysValues> own_;        ///< by slice, of its own rows
};

/// The member whose queries visit after all queries have moved `step` places.
std::int32_t visitor(const Collective& group, std::int32_t step) {
  return (group.index() + step) % group.size();
}

/// A member's queries of the MicroPack.
std::int64_t rows_of(const MergedPack& m, std::int32_t member) {
  return RowShare{m.group.size(), member}.rows(m.pack).count();
}

/// Begins to send copies of own rows `step` places back, and to get those of the step's visitor.
/// Nobody visits after the last step.
void start_visit(const MergedPack& m, std::int32_t step, const Tensors& own) {
  if (step == m.group.size()) return;
  Tensors copies;
  for (const at::Tensor& tensor : own) copies.push_back(tensor.clone());
  m.group.shifts().start_shift(std::move(copies), -step, rows_of(m, visitor(m.group, step)));
}

}  // namespace

// Own queries leave before the member attends to its own keys, and those for the next member
// together with the last visitor's result. So a member waits g times, the first time hardly at all.
AttentionResult context_attention_forward(const MergedPack& m, const at::Tensor& q_TND) {
  start_visit(m, 1, {q_TND});
  // Every query sees its own key: the own part is finite.
  AttentionResult result = partial_results(m, m.group.index(), q_TND);
  for (std::int32_t step = 1; step < m.group.size(); ++step) {
    AttentionResult part =
        partial_results(m, visitor(m.group, step), m.group.shifts().finish_shift()[0]);
    m.group.shifts().start_shift({std::move(part.out_TND), std::move(part.lse_TN)}, step,
                                 q_TND.size(0));
    start_visit(m, step + 1, {q_TND});
    const Tensors back = m.group.shifts().finish_shift();
    result = merged(std::move(result), {back[0], back[1]});
  }
  return result;
}

AttentionGradients context_attention_backward(const MergedPack& m, const QueryRows& rows) {
  const Tensors own_rows{rows.dout_TND, rows.q_TND, rows.out_TND, rows.lse_TN};
  start_visit(m, 1, own_rows);
  KeyGradients keys(m);
  at::Tensor dq_TND = keys.add(m.group.index(), rows).to(accumulate_type(rows.q_TND));
  for (std::int32_t step = 1; step < m.group.size(); ++step) {
    Tensors visiting = m.group.shifts().finish_shift();
    at::Tensor part_TND =
        keys.add(visitor(m.group, step), {visiting[0], visiting[1], visiting[2], visiting[3]});
    visiting.clear();
    m.group.shifts().start_shift({std::move(part_TND)}, step, dq_TND.size(0));
    start_visit(m, step + 1, own_rows);
    dq_TND.add_(m.group.shifts().finish_shift()[0]);
  }
  KeysValues own = keys.own();
  return {std::move(dq_TND), std::move(own.k), std::move(own.v)};
}

}  // namespace slimpack
