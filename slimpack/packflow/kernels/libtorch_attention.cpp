#include "slimpack/packflow/kernels/libtorch_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/unflatten.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

constexpr std::int64_t kBlock = 256;  ///< queries whose scores are held at a time

/// One block of queries, heads that share keys below each other: [T, G·S, …] ↔ [G, S·T, …].
class HeadGroups {
 public:
  HeadGroups(const at::Tensor& q_TND, const KeysValues& kv)
      : rows_(q_TND.size(0)), groups_(kv.k.size(1)), sharing_(q_TND.size(1) / groups_) {}

  [[nodiscard]] at::Tensor grouped(const at::Tensor& x_TN) const {
    return x_TN.unflatten(1, {groups_, sharing_}).movedim(0, 2).flatten(1, 2);
  }
  [[nodiscard]] at::Tensor ungrouped(const at::Tensor& x_GR) const {
    return x_GR.unflatten(1, {sharing_, rows_}).movedim(2, 0).flatten(1, 2);
  }
  /// Scores of what is masked out become −∞. `row` is the first query's, counted in all queries.
  void mask(at::Tensor& scores_GRL, Mask mask, std::int64_t row, std::int64_t queries) const {
    if (mask == Mask::kNone) return;
    const std::int64_t keys = scores_GRL.size(2);
    const std::int64_t last = mask.last_key(row, queries, keys);
    const auto options = scores_GRL.options().dtype(at::kLong);
    const at::Tensor key_1L = at::arange(keys, options).unsqueeze(0);
    const at::Tensor last_T1 = at::arange(last, last + rows_, options).unsqueeze(1);
    at::Tensor unseen_TL = key_1L.gt(last_T1);
    if (mask.window > 0) unseen_TL.logical_or_(key_1L.le(last_T1.sub(mask.window)));
    scores_GRL.view({groups_, sharing_, rows_, keys})
        .masked_fill_(unseen_TL, -std::numeric_limits<double>::infinity());
  }

 private:
  std::int64_t rows_, groups_, sharing_;
};

/// Keys and values head by head, in the accumulate type.
KeysValues heads_first(const KeysValues& kv) {
  const auto type = accumulate_type(kv.k);
  return {kv.k.transpose(0, 1).to(type), kv.v.transpose(0, 1).to(type)};
}

double scale_of(const at::Tensor& q_TND) {
  return 1.0 / std::sqrt(static_cast<double>(q_TND.size(2)));
}

/// Queries [row, row + count) of those that a call was given.
struct Block {
  std::int64_t row;
  std::int64_t count;
};

template <class Visit>
void for_each_block(std::int64_t queries, Visit visit) {
  for (std::int64_t row = 0; row < queries; row += kBlock)
    visit(Block{row, std::min(kBlock, queries - row)});
}

at::Tensor scores(const at::Tensor& q_GRD, const KeysValues& kv_GLD, double scale) {
  return at::bmm(q_GRD, kv_GLD.k.transpose(1, 2)).mul_(scale);
}

}  // namespace

AttentionResult composed_attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  const auto type = accumulate_type(q_TND);
  const KeysValues kv_GLD = heads_first(kv);
  std::vector<at::Tensor> out, lse;
  for_each_block(q_TND.size(0), [&](const Block& block) {
    const at::Tensor q = q_TND.narrow(0, block.row, block.count);
    const HeadGroups groups(q, kv);
    at::Tensor p_GRL = scores(groups.grouped(q).to(type), kv_GLD, scale_of(q));
    groups.mask(p_GRL, mask, block.row, q_TND.size(0));
    const at::Tensor lse_GR1 = at::logsumexp(p_GRL, {2}, /*keepdim=*/true);
    p_GRL.sub_(lse_GR1).exp_();
    out.push_back(groups.ungrouped(at::bmm(p_GRL, kv_GLD.v)).to(q_TND.scalar_type()));
    lse.push_back(groups.ungrouped(lse_GR1).squeeze(2));
  });
  return {joined_rows(out), joined_rows(lse)};
}

AttentionGradients composed_attend_backward(const QueryRows& rows, const KeysValues& kv,
                                            Mask mask) {
  const auto type = accumulate_type(rows.q_TND);
  const KeysValues kv_GLD = heads_first(kv);
  const at::Tensor dk_GLD = at::zeros_like(kv_GLD.k), dv_GLD = at::zeros_like(kv_GLD.v);
  std::vector<at::Tensor> dq;
  for_each_block(rows.q_TND.size(0), [&](const Block& block) {
    const QueryRows own = rows.narrow(block.row, block.count);
    const HeadGroups groups(own.q_TND, kv);
    const at::Tensor q_GRD = groups.grouped(own.q_TND).to(type);
    const at::Tensor dout_GRD = groups.grouped(own.dout_TND).to(type);
    const at::Tensor out_GRD = groups.grouped(own.out_TND).to(type);
    const double scale = scale_of(own.q_TND);
    at::Tensor p_GRL = scores(q_GRD, kv_GLD, scale);
    groups.mask(p_GRL, mask, block.row, rows.q_TND.size(0));
    p_GRL.sub_(groups.grouped(own.lse_TN.unsqueeze(2))).exp_();
    dv_GLD.add_(at::bmm(p_GRL.transpose(1, 2), dout_GRD));
    const at::Tensor delta_GR1 = at::mul(dout_GRD, out_GRD).sum({2}, /*keepdim=*/true);
    const at::Tensor ds_GRL =
        at::bmm(dout_GRD, kv_GLD.v.transpose(1, 2)).sub_(delta_GR1).mul_(p_GRL).mul_(scale);
    dq.push_back(groups.ungrouped(at::bmm(ds_GRL, kv_GLD.k)).to(rows.q_TND.scalar_type()));
    dk_GLD.add_(at::bmm(ds_GRL.transpose(1, 2), q_GRD));
  });
  const auto back = [&](const at::Tensor& d_GLD) {
    return d_GLD.transpose(0, 1).to(kv.k.scalar_type());
  };
  return {joined_rows(dq), back(dk_GLD), back(dv_GLD)};
}

namespace {

/// [T, heads, D] → [1, heads, T, D], the kernel's layout; a view.
at::Tensor heads_first(const at::Tensor& x_THD) {
  return x_THD.transpose(0, 1).unsqueeze(0);
}
at::Tensor rows_first(const at::Tensor& x_1HTD) {
  return x_1HTD.squeeze(0).transpose(0, 1);
}

/// Query heads that share a key head, laid below each other as further rows of it. The kernel takes
/// 256 rows at a time from 768 on, 64 from 192 on and 32 below (bench/README.md), and fewer rows
/// cost more a pair; so short slices gain and long ones only pay for the copies. Rows that see
/// different keys cannot be laid together: no mask.
class SharedKeys {
 public:
  SharedKeys(const at::Tensor& q_TND, const KeysValues& kv, Mask mask)
      : rows_(q_TND.size(0)), groups_(kv.k.size(1)), sharing_(q_TND.size(1) / groups_) {
    constexpr std::int64_t kRowsOfLargestBlock = 768;
    if (mask != Mask::kNone || rows_ >= kRowsOfLargestBlock) sharing_ = 1;
  }

  /// [T, G·S, …] → [S·T, G, …].
  [[nodiscard]] at::Tensor folded(const at::Tensor& x_TN) const {
    if (sharing_ == 1) return x_TN;
    return x_TN.unflatten(1, {groups_, sharing_}).movedim(2, 0).flatten(0, 1);
  }
  [[nodiscard]] at::Tensor unfolded(const at::Tensor& x_TN) const {
    if (sharing_ == 1) return x_TN;
    // With a single key head nothing but strides would change, and others read it row by row.
    return x_TN.unflatten(0, {sharing_, rows_}).movedim(0, 2).flatten(1, 2).contiguous();
  }

 private:
  std::int64_t rows_, groups_, sharing_;
};

/// 0 where a query sees a key, else −∞: [T, L]. None where the kernel needs no such tensor.
std::optional<at::Tensor> added_to_scores(const at::Tensor& q_TND, const KeysValues& kv,
                                          Mask mask) {
  if (mask.window == 0) return std::nullopt;
  const std::int64_t queries = q_TND.size(0), keys = kv.k.size(0);
  at::Tensor added_TL = at::empty({queries, keys}, q_TND.options().dtype(accumulate_type(q_TND)));
  const auto fill = [&]<class T>(T* row) {
    for (std::int64_t query = 0; query < queries; ++query, row += keys) {
      const std::int64_t last = mask.last_key(query, queries, keys);
      std::fill(row, row + keys, -std::numeric_limits<T>::infinity());
      std::fill(row + mask.first_key(last), row + last + 1, T{0});
    }
  };
  if (added_TL.scalar_type() == at::kDouble)
    fill(added_TL.mutable_data_ptr<double>());
  else
    fill(added_TL.mutable_data_ptr<float>());
  return added_TL;
}

}  // namespace

AttentionResult cpu_attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  const SharedKeys shared(q_TND, kv, mask);
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_first(shared.folded(q_TND)), heads_first(kv.k), heads_first(kv.v), 0.0,
      mask == Mask::kCausal, added_to_scores(q_TND, kv, mask));
  return {shared.unfolded(rows_first(out)), shared.unfolded(lse.squeeze(0).transpose(0, 1))};
}

AttentionGradients cpu_attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  const SharedKeys shared(rows.q_TND, kv, mask);
  // The kernel reads the log-sum-exp through its data pointer: heads first and contiguous.
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      heads_first(shared.folded(rows.dout_TND)), heads_first(shared.folded(rows.q_TND)),
      heads_first(kv.k), heads_first(kv.v), heads_first(shared.folded(rows.out_TND)),
      shared.folded(rows.lse_TN).transpose(0, 1).contiguous().unsqueeze(0), 0.0,
      mask == Mask::kCausal, added_to_scores(rows.q_TND, kv, mask));
  return {shared.unfolded(rows_first(dq)), rows_first(dk), rows_first(dv)};
}

}  // namespace slimpack
