// FlashAttention-3 (arXiv:2407.08608) where its package is: it registers operators with libtorch,
// flash_attn_3::fwd and ::bwd (hopper/flash_api.cpp of flash-attention). Heads up to 256.
#pragma once

#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {

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
