#include "slimpack/packflow/context_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Joined along the rows.
at::Tensor joined(const Tensors& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

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

KeysValues narrowed(const KeysValues& kv, std::int64_t begin, std::int64_t rows) {
  return {kv.k.narrow(0, begin, rows), kv.v.narrow(0, begin, rows)};
}

/// What sums of the tensor's values are kept in.
at::ScalarType wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Of queries that see no key.
AttentionResult nothing_seen(const at::Tensor& q_TND) {
  return {at::zeros_like(q_TND), at::full({q_TND.size(0), q_TND.size(1)},
                                          -std::numeric_limits<double>::infinity(), wide(q_TND))};
}

/// Every member's queries of one slice against the own keys and values of the sequence so far.
std::vector<AttentionResult> partial_results(const SliceBlocks& blocks, const Tensors& q_of,
                                             const KeysValues& kv) {
  const std::int64_t before = blocks.own_before();
  std::vector<AttentionResult> on_prefix(q_of.size());
  const at::Tensor q_TND = joined(q_of);
  if (before > 0 && q_TND.size(0) > 0) {
    const AttentionResult all = attend(q_TND, narrowed(kv, 0, before), Mask::kNone);
    std::int64_t row = 0;
    for (std::size_t m = 0; m < q_of.size(); ++m) {
      on_prefix[m] = {all.out_TND.narrow(0, row, q_of[m].size(0)),
                      all.lse_TN.narrow(0, row, q_of[m].size(0))};
      row += q_of[m].size(0);
    }
  }
  std::vector<AttentionResult> results;
  for (std::int32_t m = 0; m < blocks.members(); ++m) {
    const at::Tensor& q = q_of[static_cast<std::size_t>(m)];
    AttentionResult own = nothing_seen(q);
    const SliceBlocks::Causal causal = blocks.causal(m);
    if (!causal.empty()) {
      const AttentionResult block = attend(q.narrow(0, causal.begin, causal.rows),
                                           narrowed(kv, before, causal.keys), Mask::kCausal);
      own.out_TND.narrow(0, causal.begin, causal.rows).copy_(block.out_TND);
      own.lse_TN.narrow(0, causal.begin, causal.rows).copy_(block.lse_TN);
    }
    const AttentionResult& prefix = on_prefix[static_cast<std::size_t>(m)];
    results.push_back(prefix.out_TND.defined() ? merged(prefix, own) : std::move(own));
  }
  return results;
}

/// Cuts each member's rows of a MicroPack into those of its slices, one after the other.
class MemberRows {
 public:
  explicit MemberRows(Tensors by_member) : by_member_(std::move(by_member)) {
    row_.resize(by_member_.size());
  }

  /// Of the next slice.
  Tensors take(const SliceBlocks& blocks) {
    Tensors out;
    for (std::size_t m = 0; m < by_member_.size(); ++m) {
      const std::int64_t rows = blocks.rows(static_cast<std::int32_t>(m));
      out.push_back(by_member_[m].narrow(0, row_[m], rows));
      row_[m] += rows;
    }
    return out;
  }

 private:
  Tensors by_member_;
  std::vector<std::int64_t> row_;
};

/// What is sent back to every member: its rows, slice after slice.
class MemberParts {
 public:
  explicit MemberParts(std::int32_t members) : parts_(static_cast<std::size_t>(members)) {}

  void add(std::size_t member, at::Tensor rows) { parts_[member].push_back(std::move(rows)); }
  [[nodiscard]] Tensors exchanged(Collective& group) {
    Tensors joined_parts;
    for (const Tensors& parts : parts_) joined_parts.push_back(joined(parts));
    parts_.clear();
    return group.all_to_all(std::move(joined_parts));
  }

 private:
  std::vector<Tensors> parts_;
};

/// Gradients that own keys and values get from the queries of all members, and what these get.
struct SliceGradients {
  Tensors dq_of;              ///< by member
  at::Tensor dk_TGD, dv_TGD;  ///< of the slice's own rows, in the accumulate type
};

SliceGradients slice_backward(const SliceBlocks& blocks, const std::vector<QueryRows>& queries,
                              const KeysValues& kv, const KeysValues& gradient) {
  const std::int64_t before = blocks.own_before();
  SliceGradients out;
  for (const QueryRows& q : queries) out.dq_of.push_back(at::zeros_like(q.q_TND));
  const KeysValues own = narrowed(kv, before, blocks.own_rows());
  out.dk_TGD = at::zeros_like(own.k, wide(own.k));
  out.dv_TGD = at::zeros_like(own.v, wide(own.v));
  for (std::size_t m = 0; m < queries.size(); ++m) {
    const QueryRows& q = queries[m];
    if (before > 0 && q.q_TND.size(0) > 0) {
      const AttentionGradients on_prefix = attend_backward(q, narrowed(kv, 0, before), Mask::kNone);
      out.dq_of[m].add_(on_prefix.dq_TND);
      gradient.k.narrow(0, 0, before).add_(on_prefix.dk_TGD);
      gradient.v.narrow(0, 0, before).add_(on_prefix.dv_TGD);
    }
    const SliceBlocks::Causal causal = blocks.causal(static_cast<std::int32_t>(m));
    if (causal.empty()) continue;
    const AttentionGradients block = attend_backward(q.narrow(causal.begin, causal.rows),
                                                     narrowed(own, 0, causal.keys), Mask::kCausal);
    out.dq_of[m].narrow(0, causal.begin, causal.rows).add_(block.dq_TND);
    out.dk_TGD.narrow(0, 0, causal.keys).add_(block.dk_TGD);
    out.dv_TGD.narrow(0, 0, causal.keys).add_(block.dv_TGD);
  }
  return out;
}

}  // namespace

AttentionResult context_attention_forward(const MergedPack& m, const at::Tensor& q_TND) {
  MemberRows queries(m.group.all_gather(q_TND));
  MemberParts outs(m.group.size()), lses(m.group.size());
  for (const Slice& slice : m.pack.slices) {
    const SliceBlocks blocks(m, slice);
    auto results = partial_results(blocks, queries.take(blocks), m.kv.upto(m.layer, slice));
    for (std::size_t j = 0; j < results.size(); ++j) {
      outs.add(j, std::move(results[j].out_TND));
      lses.add(j, std::move(results[j].lse_TN));
    }
  }
  const Tensors out_from = outs.exchanged(m.group);
  const Tensors lse_from = lses.exchanged(m.group);
  // Member 0 holds the first token of every sequence, which every query sees: its part is finite.
  AttentionResult result{out_from[0].clone(), lse_from[0]};
  for (std::size_t j = 1; j < out_from.size(); ++j)
    result = merged(std::move(result), {out_from[j], lse_from[j]});
  return result;
}

AttentionGradients context_attention_backward(const MergedPack& m, const QueryRows& rows) {
  MemberRows dout(m.group.all_gather(rows.dout_TND)), q(m.group.all_gather(rows.q_TND)),
      out(m.group.all_gather(rows.out_TND)), lse(m.group.all_gather(rows.lse_TN));
  MemberParts dqs(m.group.size());
  Tensors dk, dv;
  for (const Slice& slice : m.pack.slices) {
    const SliceBlocks blocks(m, slice);
    std::vector<QueryRows> queries;
    const Tensors dout_of = dout.take(blocks), q_of = q.take(blocks), out_of = out.take(blocks),
                  lse_of = lse.take(blocks);
    for (std::size_t j = 0; j < q_of.size(); ++j)
      queries.push_back({dout_of[j], q_of[j], out_of[j], lse_of[j]});
    const KeysValues gradient = m.kv.gradient(m.layer, slice);
    SliceGradients g = slice_backward(blocks, queries, m.kv.upto(m.layer, slice), gradient);
    if (gradient.k.defined()) {
      // What later slices left for these tokens.
      g.dk_TGD.add_(gradient.k.narrow(0, blocks.own_before(), blocks.own_rows()));
      g.dv_TGD.add_(gradient.v.narrow(0, blocks.own_before(), blocks.own_rows()));
    }
    for (std::size_t j = 0; j < g.dq_of.size(); ++j) dqs.add(j, std::move(g.dq_of[j]));
    dk.push_back(std::move(g.dk_TGD));
    dv.push_back(std::move(g.dv_TGD));
  }
  const Tensors dq_from = dqs.exchanged(m.group);
  at::Tensor dq_TND = dq_from[0].to(wide(dq_from[0]), /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t j = 1; j < dq_from.size(); ++j) dq_TND.add_(dq_from[j]);
  return {std::move(dq_TND), joined(dk), joined(dv)};
}

}  // namespace slimpack
