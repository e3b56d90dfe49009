#include "slimpack/packflow/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sub.h>

namespace slimpack {
namespace {

/// [T, heads, D] → [1, heads, T, D], the kernel's layout; a view.
at::Tensor heads_first(const at::Tensor& x_THD) {
  return x_THD.transpose(0, 1).unsqueeze(0);
}
at::Tensor rows_first(const at::Tensor& x_1HTD) {
  return x_1HTD.squeeze(0).transpose(0, 1);
}

AttentionResult attend(const at::Tensor& q_TND, const at::Tensor& k, const at::Tensor& v,
                       bool causal) {
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_first(q_TND), heads_first(k), heads_first(v), 0.0, causal);
  return {rows_first(out), lse.squeeze(0).transpose(0, 1)};
}

/// Weighs two partial results by their share of the softmax mass; the first is reused.
AttentionResult merge(AttentionResult a, const AttentionResult& b) {
  const at::Tensor lse = at::logaddexp(a.lse_TN, b.lse_TN);
  const auto type = a.out_TND.scalar_type();
  const at::Tensor share_a = at::sub(a.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  const at::Tensor share_b = at::sub(b.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  a.out_TND.mul_(share_a).addcmul_(b.out_TND, share_b);
  return {a.out_TND, lse};
}

struct KernelRows {
  at::Tensor dout, q, out, lse;
};

AttentionGradients attend_backward(const KernelRows& rows, const at::Tensor& k, const at::Tensor& v,
                                   bool causal) {
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      rows.dout, rows.q, heads_first(k), heads_first(v), rows.out, rows.lse, 0.0, causal);
  return {rows_first(dq), rows_first(dk), rows_first(dv)};
}

}  // namespace

AttentionResult attention_forward(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix) {
  const std::int64_t before = prefix.count();
  const std::int64_t own = q_TND.size(0);
  const AttentionResult block =
      attend(q_TND, kv.k.narrow(0, before, own), kv.v.narrow(0, before, own), true);
  if (before == 0) return block;
  return merge(attend(q_TND, kv.k.narrow(0, 0, before), kv.v.narrow(0, 0, before), false), block);
}

AttentionGradients attention_backward(const at::Tensor& dout_TND, const at::Tensor& q_TND,
                                      const KeysValues& kv, const AttentionResult& forward,
                                      Tokens prefix, KeysValues dkv_prefix) {
  const std::int64_t before = prefix.count();
  const std::int64_t own = q_TND.size(0);
  // The kernel reads the log-sum-exp through its data pointer: heads first and contiguous.
  const KernelRows rows{heads_first(dout_TND), heads_first(q_TND), heads_first(forward.out_TND),
                        forward.lse_TN.transpose(0, 1).contiguous().unsqueeze(0)};
  AttentionGradients result =
      attend_backward(rows, kv.k.narrow(0, before, own), kv.v.narrow(0, before, own), true);
  if (before == 0) return result;
  const AttentionGradients on_prefix =
      attend_backward(rows, kv.k.narrow(0, 0, before), kv.v.narrow(0, 0, before), false);
  result.dq_TND.add_(on_prefix.dq_TND);
  dkv_prefix.k.narrow(0, 0, before).add_(on_prefix.dk_TGD);
  dkv_prefix.v.narrow(0, 0, before).add_(on_prefix.dv_TGD);
  return result;
}

}  // namespace slimpack
