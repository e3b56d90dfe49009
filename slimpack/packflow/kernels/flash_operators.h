// FlashAttention-2 (arXiv:2307.08691) as libtorch has it for CUDA devices: bf16, head dimensions
// that are multiples of 8 up to 256.
#pragma once

#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {

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

}  // namespace slimpack
