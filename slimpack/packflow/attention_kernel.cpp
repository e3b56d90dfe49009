#include "slimpack/packflow/attention_kernel.h"

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sub.h>

#include "slimpack/base/error.h"
#include "slimpack/packflow/composed_attention.h"
#include "slimpack/packflow/cpu_attention.h"
#include "slimpack/packflow/flash_attention.h"

namespace slimpack {
namespace {

enum class Kernel : std::uint8_t { kCpu, kFlash, kComposed };

Kernel kernel_of(const at::Tensor& q_TND) {
  if (q_TND.is_cpu()) return Kernel::kCpu;
  const bool known_size = q_TND.size(2) % 8 == 0 && q_TND.size(2) <= 256;
  return q_TND.is_cuda() && q_TND.scalar_type() == at::kBFloat16 && known_size ? Kernel::kFlash
                                                                               : Kernel::kComposed;
}

}  // namespace

AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  switch (kernel_of(q_TND)) {
    case Kernel::kCpu:
      return cpu_attend(q_TND, kv, mask);
    case Kernel::kFlash:
      return flash_attend(q_TND, kv, mask);
    case Kernel::kComposed:
      break;
  }
  return composed_attend(q_TND, kv, mask);
}

AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  switch (kernel_of(rows.q_TND)) {
    case Kernel::kCpu:
      return cpu_attend_backward(rows, kv, mask);
    case Kernel::kFlash:
      return flash_attend_backward(rows, kv, mask);
    case Kernel::kComposed:
      break;
  }
  return composed_attend_backward(rows, kv, mask);
}

bool has_causal_end(const at::Tensor& q_TND) {
  return kernel_of(q_TND) != Kernel::kCpu;
}

bool takes_several_sequences(const at::Tensor& q_TND) {
  return kernel_of(q_TND) == Kernel::kFlash;
}

AttentionResult attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                 const Lengths& lengths) {
  SLIMPACK_CHECK(takes_several_sequences(q_TND));
  return flash_attend_sequences(q_TND, kv, lengths);
}

AttentionGradients attend_sequences_backward(const QueryRows& rows, const KeysValues& kv,
                                             const Lengths& lengths) {
  SLIMPACK_CHECK(takes_several_sequences(rows.q_TND));
  return flash_attend_sequences_backward(rows, kv, lengths);
}

AttentionResult merged(AttentionResult a, const AttentionResult& b) {
  const at::Tensor lse = at::logaddexp(a.lse_TN, b.lse_TN);
  const auto type = a.out_TND.scalar_type();
  const at::Tensor share_a = at::sub(a.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  const at::Tensor share_b = at::sub(b.lse_TN, lse).exp_().unsqueeze(-1).to(type);
  a.out_TND.mul_(share_a).addcmul_(b.out_TND, share_b);
  return {a.out_TND, lse};
}

}  // namespace slimpack
