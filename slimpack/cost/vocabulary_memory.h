// The memory of the vocabulary on one rank: the head with its loss, and the passes of a vocabulary
// that is spread over the pipeline.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/layer_memory.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// Whether fused kernels take logits of so many words: a multiple of 8.
[[nodiscard]] constexpr bool fused_head_takes(std::int64_t vocab_size) {
  return vocab_size % 8 == 0;
}

/// Rows of logits that the head computes at once. On a CPU a block is small enough for its caches.
/// On a GPU it is as large as a product must be to run at full speed.
[[nodiscard]] constexpr Tokens head_block(std::int64_t vocab_size, DeviceKind device) {
  const bool gpu = device == DeviceKind::kCuda;
  const std::int64_t logits = std::int64_t{1} << (gpu ? 28 : 20);  // in fp32: 1 GiB, 4 MiB
  return Tokens(std::clamp<std::int64_t>(logits / vocab_size, gpu ? 2048 : 64, 4096));
}
/// head_block() where fused kernels take the logits (fused_head_takes): in a quarter of the memory,
/// so that blocks have four times the rows.
[[nodiscard]] constexpr Tokens fused_head_block(std::int64_t vocab_size) {
  return head_block(vocab_size, DeviceKind::kCuda) * 4;
}

/// The head of a rank.
struct HeadMemory {
  /// `layer`: of any layer before the head. `vocab_size`: the model's.
  HeadMemory(const LayerWidths& layer, std::int64_t vocab_size, DeviceKind device);

  /// The peak of final norm, head and loss, which run before any layer: dx, targets, and the
  /// tensors of one block.
  [[nodiscard]] std::int64_t peak(std::int64_t tokens) const;
  /// The head where each of `ranks` pipeline ranks has a part of the words, and all rows.
  [[nodiscard]] HeadMemory spread_over(std::int32_t ranks) const;

  LayerWidths widths;
  std::int64_t words;  ///< whose logits the rank computes
  DeviceKind device;
  bool fused;  ///< whether the loss runs in fused kernels, which take the logits as they are

 private:
  [[nodiscard]] std::int64_t fused_peak(std::int64_t tokens, std::int64_t rows) const;
};

/// Adds the peaks of E, H and G on each of `ranks` pipeline ranks: hidden states of all rows beside
/// what the pass does with them. `held`: the packs with the slices as the replica holds them.
void add_vocabulary(TaskBytes& bytes, const HeadMemory& whole, const PackPlan& held,
                    std::int32_t ranks);

/// The bytes where E, H and G are counted as free, if the layout spreads the vocabulary.
[[nodiscard]] TaskBytes with_free_vocabulary(TaskBytes bytes, const StageLayout& layout,
                                             const PackPlan& packs);

}  // namespace slimpack
