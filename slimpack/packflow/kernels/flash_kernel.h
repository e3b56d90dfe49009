// Flash attention on GPUs: what the releases of it have in common. One call takes one block of
// queries against one block of keys, or several sequences that lie end to end; its causal mask is
// aligned at the end; the log-sum-exp has heads first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/kernels/fa4_library.h"

namespace slimpack {

/// One call of a kernel, beside its rows.
struct FlashCall {
  const JoinedSequences* sequences;  ///< null: all rows are one block
  bool causal;                       ///< aligned at the end
  std::int64_t window = 0;           ///< Mask::window

  [[nodiscard]] bool windowed() const { return window > 0; }
  /// Keys before its own that a query sees, as kernels take a window; none after it.
  [[nodiscard]] std::int64_t keys_before_own() const { return window - 1; }
  [[nodiscard]] std::int64_t longest_queries(const at::Tensor& q_TND) const {
    return sequences != nullptr ? sequences->longest_queries : q_TND.size(0);
  }
  [[nodiscard]] std::int64_t longest_keys(const KeysValues& kv) const {
    return sequences != nullptr ? sequences->longest_keys : kv.k.size(0);
  }
  /// Rows as libtorch's operators take and give them: several sequences are rows of a single batch,
  /// one block is a batch of one.
  [[nodiscard]] at::Tensor batched(const at::Tensor& x) const {
    return sequences != nullptr ? x : x.unsqueeze(0);
  }
  [[nodiscard]] at::Tensor unbatched(const at::Tensor& x) const {
    return sequences != nullptr ? x : x.squeeze(0);
  }
};

class FlashKernel {
 public:
  virtual ~FlashKernel() = default;

  /// 2, 3 or 4: FlashAttention-2, …
  [[nodiscard]] virtual std::int32_t release() const = 0;
  /// Whether it takes tensors of the type of `like`, where that lies, with such heads.
  [[nodiscard]] virtual bool supports(const at::Tensor& like,
                                      const AttentionHeads& heads) const = 0;
  /// Says to people who installed this kernel why it does not take them; empty where it does, and
  /// where it is not installed.
  [[nodiscard]] virtual std::string refusal(const at::Tensor&, const AttentionHeads&) const {
    return {};
  }

  /// Are slimpack::attend and attend_backward by this kernel, with all masks.
  [[nodiscard]] AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv,
                                       Mask mask) const;
  [[nodiscard]] AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                   Mask mask) const;
  /// Are attend_sequences and attend_sequences_backward by this kernel.
  [[nodiscard]] AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv,
                                       const JoinedSequences& sequences,
                                       std::int64_t window = 0) const {
    return forward({&sequences, true, window}, q_TND, kv);
  }
  [[nodiscard]] AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                   const JoinedSequences& sequences,
                                                   std::int64_t window = 0) const {
    return backward({&sequences, true, window}, rows, kv);
  }

 private:
  [[nodiscard]] virtual AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                                const KeysValues& kv) const = 0;
  [[nodiscard]] virtual AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                                    const KeysValues& kv) const = 0;
};

/// FlashAttention-2 (arXiv:2307.08691), which libtorch itself has for CUDA devices: bf16, head
/// dimensions that are multiples of 8 up to 256.
[[nodiscard]] std::unique_ptr<const FlashKernel> flash_attention_2();
/// FlashAttention-3 (arXiv:2407.08608) for the same tensors. Its package registers operators of
/// libtorch, flash_attn_3::fwd and ::bwd (hopper/flash_api.cpp of flash-attention).
[[nodiscard]] std::unique_ptr<const FlashKernel> flash_attention_3();

/// The log-sum-exp as backward kernels read it, through its data pointer: heads first and
/// contiguous, as forward gave it.
[[nodiscard]] at::Tensor lse_by_head(const at::Tensor& lse_TN);

/// FlashAttention-4's Hopper kernels, compiled ahead of time into a library that need not be there
/// (fa4_library.h): bf16, the heads that it was compiled for. With deterministic algorithms its
/// sums have one order.
class FlashAttention4 final : public FlashKernel {
 public:
  /// Opens the library, which stays open. Throws InvalidInput if it cannot be opened or is of
  /// another version.
  explicit FlashAttention4(const std::filesystem::path& library);

  [[nodiscard]] std::int32_t release() const override { return 4; }
  /// Loads the kernels for the device of `like`, once. Throws RunFailed if the driver refuses them.
  [[nodiscard]] bool supports(const at::Tensor& like, const AttentionHeads& heads) const override;
  [[nodiscard]] std::string refusal(const at::Tensor& like,
                                    const AttentionHeads& heads) const override;

 private:
  [[nodiscard]] AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                        const KeysValues& kv) const override;
  [[nodiscard]] AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                            const KeysValues& kv) const override;
  [[nodiscard]] const Fa4Kernels* kernels(const AttentionHeads& heads, bool causal) const;
  void require_done(std::int32_t error, const char* what) const;

  std::filesystem::path library_;
  const Fa4Functions* functions_;
};

/// The library that SLIMPACK_FA4 names; else the one beside the program or Python module, or in the
/// build folder that these are in; an empty path where there is none, and where SLIMPACK_FA4 is
/// empty.
[[nodiscard]] std::filesystem::path find_fa4_library();

}  // namespace slimpack
