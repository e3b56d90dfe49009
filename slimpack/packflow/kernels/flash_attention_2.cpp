#include "slimpack/packflow/kernels/flash_attention_2.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>

#include <optional>

#include "slimpack/packflow/device/optional_operator.h"

namespace slimpack {
namespace {

/// One block is a batch of one, several sequences are rows of a single batch: without or with it.
struct Batch {
  const JoinedSequences* sequences;

  [[nodiscard]] at::Tensor in(const at::Tensor& x) const {
    return sequences != nullptr ? x : x.unsqueeze(0);
  }
  [[nodiscard]] at::Tensor out(const at::Tensor& x) const {
    return sequences != nullptr ? x : x.squeeze(0);
  }
  [[nodiscard]] std::int64_t longest_queries(const at::Tensor& q_TND) const {
    return sequences != nullptr ? sequences->longest_queries : q_TND.size(0);
  }
  [[nodiscard]] std::int64_t longest_keys(const KeysValues& kv) const {
    return sequences != nullptr ? sequences->longest_keys : kv.k.size(0);
  }
};

}  // namespace

bool FlashAttention2::supports(const at::Tensor& like, const AttentionHeads& heads) const {
  static const OptionalOperator flash("_flash_attention_forward");
  return like.scalar_type() == at::kBFloat16 && heads.dim % 8 == 0 && heads.dim <= 256 &&
         flash.runs_on(like);
}

AttentionResult FlashAttention2::forward(const FlashCall& call, const at::Tensor& q_TND,
                                         const KeysValues& kv) const {
  const Batch batch{call.sequences};
  std::optional<at::Tensor> query_bounds, key_bounds;
  if (call.sequences != nullptr) {
    query_bounds = call.sequences->query_ends_B1;
    key_bounds = call.sequences->key_ends_B1;
  }
  const auto [out, lse, rng_state, unused, mask] = at::_flash_attention_forward(
      batch.in(q_TND), batch.in(kv.k), batch.in(kv.v), query_bounds, key_bounds,
      batch.longest_queries(q_TND), batch.longest_keys(kv), /*dropout_p=*/0.0, call.causal,
      /*return_debug_mask=*/false);
  return {batch.out(out), batch.out(lse).transpose(0, 1)};
}

AttentionGradients FlashAttention2::backward(const FlashCall& call, const QueryRows& rows,
                                             const KeysValues& kv) const {
  const Batch batch{call.sequences};
  at::Tensor query_bounds, key_bounds;
  if (call.sequences != nullptr) {
    query_bounds = call.sequences->query_ends_B1;
    key_bounds = call.sequences->key_ends_B1;
  }
  // The last two tensors belong to dropout, which is off.
  const auto options = rows.q_TND.options();
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      batch.in(rows.dout_TND), batch.in(rows.q_TND), batch.in(kv.k), batch.in(kv.v),
      batch.in(rows.out_TND), batch.in(lse_by_head(rows.lse_TN)), query_bounds, key_bounds,
      batch.longest_queries(rows.q_TND), batch.longest_keys(kv), /*dropout_p=*/0.0, call.causal,
      at::empty({2}, options.dtype(at::kUInt64)), at::empty({0}, options));
  return {batch.out(dq), batch.out(dk), batch.out(dv)};
}

}  // namespace slimpack
