// FlashAttention-4's Hopper kernels, compiled ahead of time into a library that need not be there
// (fa4_library.h): bf16, the heads that it was compiled for. With deterministic algorithms its sums
// have one order.
#pragma once

#include <filesystem>
#include <string>

#include "slimpack/packflow/kernels/fa4_library.h"
#include "slimpack/packflow/kernels/flash_kernel.h"

namespace slimpack {

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
