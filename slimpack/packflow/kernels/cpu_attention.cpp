#include "slimpack/packflow/kernels/cpu_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/unflatten.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
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
