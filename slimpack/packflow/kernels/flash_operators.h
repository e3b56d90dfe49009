// Releases of FlashAttention that are operators of libtorch: bf16, head dimensions that are
// multiples of 8 up to 256.
#pragma once

#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {

/// arXiv:2307.08691. libtorch itself has it for CUDA devices.
class FlashAttention2 final : public FlashKernel {
 public:
  [[nodiscard]] std::int32_t release() const override { return 2; }
  [[nodiscard]] bool supports(const at::Tensor& like, const AttentionHeads& heads) const override;

 private:
  [[nodiscard]] AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                        const KeysValues& kv) const override;
  [[nodiscard]] AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                            const KeysValues& kv) const override;
};

/// arXiv:2407.08608. Its package registers operators, flash_attn_3::fwd and ::bwd
/// (hopper/flash_api.cpp of flash-attention).
class FlashAttention3 final : public FlashKernel {
 public:
  [[nodiscard]] std::int32_t release() const override { return 3; }
  [[nodiscard]] bool supports(const at::Tensor& like, const AttentionHeads& heads) const override;

 private:
  [[nodiscard]] AttentionResult forward(const FlashCall& call, const at::Tensor& q_TND,
                                        const KeysValues& kv) const override;
  [[nodiscard]] AttentionGradients backward(const FlashCall& call, const QueryRows& rows,
                                            const KeysValues& kv) const override;
};

}  // namespace slimpack
