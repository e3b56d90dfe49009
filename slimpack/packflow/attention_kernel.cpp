#include "slimpack/packflow/attention_kernel.h"

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

}  // namespace

AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads_first(q_TND), heads_first(kv.k), heads_first(kv.v), 0.0, mask == Mask::kCausal);
  return {rows_first(out), lse.squeeze(0).transpose(0, 1)};
}

AttentionResult merged(AttentionResult a, const AttentionResult& b) {
  const at::Tensor lse = at::logaddexp(a.lse_TN, b.lse_TN);
  const auto type = a.out_TND.scalar_type();
  const at::Tensor share_a = at::sub(a.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  const at::Tensor share_b = at::sub(b.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  a.out_TND.mul_(share_a).addcmul_(b.out_TND, share_b);
  return {a.out_TND, lse};
}

AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  // The kernel reads the log-sum-exp through its data pointer: heads first and contiguous.
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      heads_first(rows.dout_TND), heads_first(rows.q_TND), heads_first(kv.k), heads_first(kv.v),
      heads_first(rows.out_TND), rows.lse_TN.transpose(0, 1).contiguous().unsqueeze(0), 0.0,
      mask == Mask::kCausal);
  return {rows_first(dq), rows_first(dk), rows_first(dv)};
}

}  // namespace slimpack
