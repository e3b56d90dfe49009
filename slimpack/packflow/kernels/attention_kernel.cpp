#include "slimpack/packflow/kernels/attention_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/flash_kernel.h"
#include "slimpack/packflow/kernels/libtorch_attention.h"

namespace slimpack {
namespace {

/// The newest first. The library of FlashAttention-4 is opened where it is found.
std::vector<std::unique_ptr<const FlashKernel>> flash_kernels() {
  std::vector<std::unique_ptr<const FlashKernel>> kernels;
  if (const std::filesystem::path library = find_fa4_library(); !library.empty())
    kernels.push_back(std::make_unique<FlashAttention4>(library));
  kernels.push_back(flash_attention_3());
  kernels.push_back(flash_attention_2());
  return kernels;
}

const std::vector<std::unique_ptr<const FlashKernel>>& candidates() {
  static const std::vector<std::unique_ptr<const FlashKernel>> all = flash_kernels();
  return all;
}

/// Null where none takes them.
const FlashKernel* flash_kernel(const at::Tensor& like, const AttentionHeads& heads) {
  if (like.is_cpu()) return nullptr;
  for (const auto& kernel : candidates())
    if (kernel->supports(like, heads)) return kernel.get();
  return nullptr;
}

const FlashKernel* flash_kernel(const at::Tensor& q_TND, const KeysValues& kv, bool windowed) {
  return flash_kernel(q_TND, AttentionHeads{q_TND.size(1), kv.k.size(1), q_TND.size(2), windowed});
}

const FlashKernel& kernel_of_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                       std::int64_t window) {
  const FlashKernel* const kernel = flash_kernel(q_TND, kv, window > 0);
  SLIMPACK_CHECK(kernel != nullptr);
  return *kernel;
}

}  // namespace

AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv, Mask mask) {
  if (q_TND.is_cpu()) return cpu_attend(q_TND, kv, mask);
  if (const FlashKernel* const kernel = flash_kernel(q_TND, kv, mask.window > 0))
    return kernel->attend(q_TND, kv, mask);
  return composed_attend(q_TND, kv, mask);
}

AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv, Mask mask) {
  if (rows.q_TND.is_cpu()) return cpu_attend_backward(rows, kv, mask);
  if (const FlashKernel* const kernel = flash_kernel(rows.q_TND, kv, mask.window > 0))
    return kernel->attend_backward(rows, kv, mask);
  return composed_attend_backward(rows, kv, mask);
}

bool has_causal_end(const at::Tensor& q_TND) {
  return !q_TND.is_cpu();
}

bool skips_hidden_keys(const at::Tensor& q_TND, const KeysValues& kv) {
  return flash_kernel(q_TND, kv, true) != nullptr;
}

AttentionHeads attention_heads(const LayerShape& layer) {
  return {layer.num_heads, layer.num_kv_heads, layer.head_dim, layer.window > 0};
}

KernelChoice attention_kernel(at::Device device, Dtype dtype, const AttentionHeads& heads) {
  if (device.is_cpu()) return {0, "libtorch's flash attention for CPUs"};
  const at::Tensor like = at::empty({0}, at::dtype(compute_type(dtype)).device(device));
  const FlashKernel* const chosen = flash_kernel(like, heads);
  const auto name = [](const FlashKernel& k) {
    return fmt::format("FlashAttention-{}", k.release());
  };
  std::string text = chosen != nullptr ? name(*chosen) : "matrix products";
  for (const auto& kernel : candidates()) {
    if (kernel.get() == chosen) break;
    if (const std::string refusal = kernel->refusal(like, heads); !refusal.empty())
      text += fmt::format(", not {}: {}", name(*kernel), refusal);
  }
  return {chosen != nullptr ? chosen->release() : 0, std::move(text)};
}

JoinedSequences::JoinedSequences(const std::vector<std::int64_t>& queries,
                                 const std::vector<std::int64_t>& keys)
    : longest_queries(std::ranges::max(queries)), longest_keys(std::ranges::max(keys)) {
  const auto ends_of = [&](const std::vector<std::int64_t>& lengths) {
    std::vector<std::int32_t> ends{0};
    for (const std::int64_t length : lengths)
      ends.push_back(ends.back() + static_cast<std::int32_t>(length));
    return at::tensor(ends, at::kInt);
  };
  query_ends_B1 = ends_of(queries);
  key_ends_B1 = queries == keys ? query_ends_B1 : ends_of(keys);
}

bool takes_several_sequences(const at::Tensor& like, const AttentionHeads& heads) {
  return flash_kernel(like, heads) != nullptr;
}

AttentionResult attend_sequences(const at::Tensor& q_TND, const KeysValues& kv,
                                 const JoinedSequences& sequences, std::int64_t window) {
  return kernel_of_sequences(q_TND, kv, window).attend(q_TND, kv, sequences, window);
}

AttentionGradients attend_sequences_backward(const QueryRows& rows, const KeysValues& kv,
                                             const JoinedSequences& sequences,
                                             std::int64_t window) {
  return kernel_of_sequences(rows.q_TND, kv, window).attend_backward(rows, kv, sequences, window);
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
