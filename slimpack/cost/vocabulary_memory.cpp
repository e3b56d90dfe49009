#include "slimpack/cost/vocabulary_memory.h"

#include <vector>

#include "slimpack/cost/head_block.h"
#include "slimpack/cost/layer_transients.h"

namespace slimpack {

void add_vocabulary(TaskBytes& bytes, LayerWidths widths, const PackPlan& held, std::int32_t ranks,
                    DeviceKind device) {
  // Each rank of the pipeline has its share of the vocabulary and gets gathered hidden states.
  const std::int64_t rows = widths.all_hidden();
  widths.vocab_size = share_of(widths.vocab_size, ranks);
  widths.gathered = rows;
  const Tokens block = widths.fused_head ? fused_head_block(widths.vocab_size)
                                         : head_block(widths.vocab_size, device);
  constexpr std::int64_t kIndex = sizeof(std::int64_t);
  const auto peaks = [&](const std::vector<MicroPack>& packs, auto peak_of) {
    std::vector<Bytes> out;
    for (const MicroPack& pack : packs) out.emplace_back(peak_of(pack.tokens().count()));
    return out;
  };
  const auto of = [&](Pass pass) -> std::vector<Bytes>& {
    return bytes.joint_transient[joint_index(pass)];
  };
  of(Pass::kEmbedding) = peaks(held.forward, [&](std::int64_t tokens) {
    return tokens * (rows + widths.hidden + 4 * kIndex);
  });
  of(Pass::kHead) = peaks(
      held.backward, [&](std::int64_t tokens) { return head_transient(widths, tokens, block); });
  of(Pass::kEmbeddingGradient) = peaks(held.backward, [&](std::int64_t tokens) {
    return tokens * (rows + rows / widths.element * widths.accumulator + 4 * kIndex);
  });
}

TaskBytes with_free_vocabulary(TaskBytes bytes, const StageLayout& layout, const PackPlan& packs) {
  if (layout.spread_vocabulary)
    for (const Pass pass : kJointPasses)
      bytes.joint_transient[joint_index(pass)].resize(packs.of(pass).size());
  return bytes;
}

}  // namespace slimpack
