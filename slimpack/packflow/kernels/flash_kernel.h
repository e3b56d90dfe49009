// Flash attention on GPUs: what the releases of it have in common. One call takes one block of
// queries against one block of keys, or several sequences that lie end to end; its causal mask is
// aligned at the end; the log-sum-exp has heads first.
#pragma once

#include <cstdint>
#include <string>

#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

/// What one call takes.
struct FlashCall {
  const JoinedSequences* sequences;  ///< null: all rows are one block
  bool causal;                       ///< aligned at the end
};

class FlashKernel {
 public:
  virtual ~FlashKernel() = default;

  /// 2, 3 or 4: FlashAttention-2, …
  [[nodiscard]] virtual std::int32_t release() const = 0;
  /// Whether it takes tensors of the type of `like`, where that lies, with such heads.
  [[nodiscard]] virtual bool supports(const at::Tensor& like,
                                      const AttentionHeads& heads) const = 0;
  /// For people who installed this kernel: why it does not take them; empty where it does, and
  /// where it is not installed.
  [[nodiscard]] virtual std::string refusal(const at::Tensor&, const AttentionHeads&) const {
    return {};
  }

  /// As slimpack::attend and attend_backward; all masks.
  [[nodiscard]] AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv,
                                       Mask mask) const;
  [[nodiscard]] AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                   Mask mask) const;
  /// As attend_sequences and attend_sequences_backward.
  [[nodiscard]] AttentionResult attend(const at::Tensor& q_TND, const KeysValues& kv,
                                       const JoinedSequences& sequences) const {
    return forward({&sequences, true}, q_TND, kv);
  }
  [[nodiscard]] AttentionGradients attend_backward(const QueryRows& rows, const KeysValues& kv,
                                                   const JoinedSequences& sequences) const {
    return backward({&sequences, true}, rows, kv);
  }

 private:
  [[nodiscard]] virtual AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                                const KeysValues& kv) const = 0;
  [[nodiscard]] virtual AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                                    const KeysValues& kv) const = 0;
};

/// The log-sum-exp as backward kernels read it, through its data pointer: heads first and
/// contiguous, as forward gave it.
[[nodiscard]] at::Tensor lse_by_head(const at::Tensor& lse_TN);

}  // namespace slimpack
