#include "slimpack/cost/vocabulary_memory.h"

#include <vector>

namespace slimpack {

HeadMemory::HeadMemory(const LayerWidths& layer, std::int64_t vocab_size, DeviceKind of)
    : widths(layer),
      words(share_of(vocab_size, layer.tp)),
      device(of),
      fused(layer.runtime.fused_kernels && fused_head_takes(words)) {}

HeadMemory HeadMemory::spread_over(std::int32_t ranks) const {
  HeadMemory part = *this;
  part.words = share_of(words, ranks);
  part.widths.gathered = widths.all_hidden();
  return part;
}

/// Logits in the compute type, whose place their gradient takes.
std::int64_t HeadMemory::fused_peak(std::int64_t tokens, std::int64_t rows) const {
  const LayerWidths& w = widths;
  constexpr std::int64_t kTarget = sizeof(std::int64_t);
  const std::int64_t logits = rows * w.element * words;
  // Log-sum-exp and the target's logit, validity and the weight of a row.
  if (w.gathered == 0)
    return tokens * (w.hidden + kTarget) +
           std::max(logits + rows * (w.hidden + 4 * w.accumulator), w.norm_sums(tokens));
  const std::int64_t in_block =
      tokens * w.gathered + rows * 10 * w.accumulator + logits + rows * w.gathered;
  return tokens * (w.hidden + kTarget + w.index()) +
         std::max(in_block, tokens * w.summed() + w.norm_sums(tokens));
}

std::int64_t HeadMemory::peak(std::int64_t tokens) const {
  const LayerWidths& w = widths;
  constexpr std::int64_t kTarget = sizeof(std::int64_t);
  const Tokens block = fused ? fused_head_block(words) : head_block(words, device);
  const std::int64_t rows = std::min(tokens, block.count());
  if (fused) return fused_peak(tokens, rows);
  const std::int64_t logits = rows * w.accumulator * words;
  const std::int64_t softmax = 2 * logits;  // log-sum-exp works on a copy
  // The gradient of the logits takes their place, or, where it is rounded, is another tensor.
  const std::int64_t dlogits = rows * w.element * words;
  const std::int64_t rounding = w.rounded() ? logits + dlogits : 0;
  const std::int64_t gradient =
      std::max(rounding, dlogits + w.weight(rows, words, w.shape.hidden_size));
  if (w.gathered == 0) {
    // Clamped targets; 1 / rms, validity, largest logit and log-sum-exp; n and n ⊙ weight.
    const std::int64_t held = rows * (kTarget + 4 * w.accumulator + 2 * w.hidden);
    const std::int64_t norm = dlogits + rows * (w.hidden + w.normalize_backward(w.hidden));
    return tokens * (w.hidden + kTarget) + held + std::max({softmax, gradient, norm});
  }
  // For a block: clamped targets, validity, and what the ranks exchange, two of each. For all rows:
  // n ⊙ weight, which its gradient replaces.
  const std::int64_t held = rows * (kTarget + 10 * w.accumulator);
  const std::int64_t in_block =
      tokens * w.gathered + held + std::max({softmax, gradient, dlogits + rows * w.gathered});
  return tokens * (w.hidden + w.rstd() + kTarget + w.index()) +
         std::max(in_block, tokens * w.norm_backward());
}

void add_vocabulary(TaskBytes& bytes, const HeadMemory& whole, const PackPlan& held,
                    std::int32_t ranks) {
  const HeadMemory part = whole.spread_over(ranks);
  const LayerWidths& w = part.widths;
  const std::int64_t row = w.gathered;
  constexpr std::int64_t kIndex = sizeof(std::int64_t);
  const auto peaks = [&](const std::vector<MicroPack>& packs, auto peak_of) {
    std::vector<Bytes> out;
    for (const MicroPack& pack : packs) out.emplace_back(peak_of(pack.tokens().count()));
    return out;
  };
  const auto of = [&](Pass pass) -> std::vector<Bytes>& {
    return bytes.joint_transient[joint_index(pass)];
  };
  of(Pass::kEmbedding) = peaks(
      held.forward, [&](std::int64_t tokens) { return tokens * (row + w.hidden + 4 * kIndex); });
  of(Pass::kHead) = peaks(held.backward, [&](std::int64_t tokens) { return part.peak(tokens); });
  of(Pass::kEmbeddingGradient) = peaks(held.backward, [&](std::int64_t tokens) {
    return tokens * (row + row / w.element * w.accumulator + 4 * kIndex);
  });
}

TaskBytes with_free_vocabulary(TaskBytes bytes, const StageLayout& layout, const PackPlan& packs) {
  if (layout.spread_vocabulary)
    for (const Pass pass : kJointPasses)
      bytes.joint_transient[joint_index(pass)].resize(packs.of(pass).size());
  return bytes;
}

}  // namespace slimpack
