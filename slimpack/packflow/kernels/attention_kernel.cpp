#include "slimpack/packflow/kernels/attention_kernel.h"

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include "slimpack/base/error.h"
#include "slimpack/packflow/kernels/composed_attention.h"
#include "slimpack/packflow/kernels/cpu_attention.h"
#include "slimpack/packflow/kernels/flash_attention.h"

namespace slimpack {
namespace {

struct Kernel {
  decltype(&cpu_attend) forward;
  decltype(&cpu_attend_backward) backward;
  bool causal_end = false;
  // Of several sequences; null where there is no such call.
  decltype(&flash_attend_sequences) sequences = nullptr;
  decltype(&flash_attend_sequences_backward) sequences_backward = nullptr;
};

Kernel kernel_of(const at::Tensor& q_TND) {
  if (q_TND.is_cpu()) return {cpu_attend, cpu_attend_backward};
  const bool known_size = q_TND.size(2) % 8 == 0 && q_TND.size(2) <= 256;
  if (q_TND.is_cuda() && q_TND.scalar_type() == at::kBFloat16 && known_size)
    return {flash_attend, flash_attend_backward, true, flash_attend_sequences,
            flash_attend_sequences_backward};
  return {composed_attend, composed_attend_backward, true};
}

}  // namespace

AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  return kernel_of(q_TND).forward(q_TND, kv, mask);
}

AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  return kernel_of(rows.q_TND).backward(rows, kv, mask);
}

bool has_causal_end(const at::Tensor& q_TND) {
  return kernel_of(q_TND).causal_end;
}

bool takes_several_sequences(const at::Tensor& q_TND) {
  return kernel_of(q_TND).sequences != nullptr;
}

AttentionResult attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                 const Lengths& lengths) {
  SLIMPACK_CHECK(takes_several_sequences(q_TND));
  return kernel_of(q_TND).sequences(q_TND, kv, lengths);
}

AttentionGradients attend_sequences_backward(const QueryRows& rows, const KeysValues& kv,
                                             const Lengths& lengths) {
  SLIMPACK_CHECK(takes_several_sequences(rows.q_TND));
  return kernel_of(rows.q_TND).sequences_backward(rows, kv, lengths);
}

AttentionResult merged(AttentionResult a, const AttentionResult& b) {
  const at::Tensor lse = at::logaddexp(a.lse_TN, b.lse_TN);
  const at::Tensor share_a = at::sub(a.lse_TN, lse).exp_().unsqueeze(-1);
  const at::Tensor share_b = at::sub(b.lse_TN, lse).exp_().unsqueeze(-1);
  if (share_a.scalar_type() == a.out_TND.scalar_type())
    a.out_TND.mul_(share_a).addcmul_(b.out_TND, share_b);
  else  // the sum is rounded, not its parts
    a.out_TND.copy_(at::mul(a.out_TND, share_a).addcmul_(b.out_TND, share_b));
  return {a.out_TND, lse};
}

}  // namespace slimpack
