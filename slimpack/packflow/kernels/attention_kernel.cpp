#include "slimpack/packflow/kernels/attention_kernel.h"

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/optional_operator.h"
#include "slimpack/packflow/device/tensor.h"
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

Kernel kernel_of(const at::Tensor& like, std::int64_t head_dim) {
  if (like.is_cpu()) return {cpu_attend, cpu_attend_backward};
  static const OptionalOperator flash("_flash_attention_forward");
  const bool known_size = head_dim % 8 == 0 && head_dim <= 256;
  if (like.scalar_type() == at::kBFloat16 && known_size && flash.runs_on(like))
    return {flash_attend, flash_attend_backward, true, flash_attend_sequences,
            flash_attend_sequences_backward};
  return {composed_attend, composed_attend_backward, true};
}

Kernel kernel_of(const at::Tensor& q_TND) {
  return kernel_of(q_TND, q_TND.size(2));
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

JoinedSequences::JoinedSequences(const std::vector<std::int64_t>& lengths, at::Device device)
    : longest(std::ranges::max(lengths)) {
  std::vector<std::int32_t> ends{0};
  for (const std::int64_t length : lengths)
    ends.push_back(ends.back() + static_cast<std::int32_t>(length));
  ends_B1 = put_on(at::tensor(ends, at::kInt), device);
}

bool takes_several_sequences(const at::Tensor& like, std::int64_t head_dim) {
  return kernel_of(like, head_dim).sequences != nullptr;
}

AttentionResult attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                 const JoinedSequences& sequences) {
  const Kernel kernel = kernel_of(q_TND);
  SLIMPACK_CHECK(kernel.sequences != nullptr);
  return kernel.sequences(q_TND, kv, sequences);
}

AttentionGradients attend_sequences_backward(const QueryRows& rows, const KeysValues& kv,
                                             const JoinedSequences& sequences) {
  const Kernel kernel = kernel_of(rows.q_TND);
  SLIMPACK_CHECK(kernel.sequences_backward != nullptr);
  return kernel.sequences_backward(rows, kv, sequences);
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
