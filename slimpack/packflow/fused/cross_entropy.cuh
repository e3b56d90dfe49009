// Cross-entropy: loss = lse − logit of the target, of columns [from, from + V) of the vocabulary.
#pragma once

#include "slimpack/packflow/fused/block.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

/// The maximum of some logits, and Σ exp(logit − maximum).
struct MaxSum {
  float max, sum;
};
constexpr float kLowest = -3.402823466e38f;  ///< finite, so that differences are numbers

struct MergeMaxSum {
  SLIMPACK_DEVICE MaxSum operator()(const MaxSum& a, const MaxSum& b) const {
    const float max = fmaxf(a.max, b.max);
    return {max,
            a.sum * exp2_fast((a.max - max) * kLog2E) + b.sum * exp2_fast((b.max - max) * kLog2E)};
  }
};

/// The loss is made of these; ranks that have a part of the columns each merge them. 2 bytes a
/// logit.
struct CrossEntropy {
  const Bf16* logits_TV;
  const std::int64_t* targets_T;  ///< of the whole vocabulary; a negative one is none
  std::int64_t from;
  float* lse_T;     ///< of these columns
  float* target_T;  ///< the target's logit, 0 where it is not here
  int width;        ///< V

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const std::int64_t row = block.index();
    const Bf16* logits = logits_TV + row * width;
    Own<MaxSum, B::kLanes> owns(MaxSum{kLowest, 0});
    block.each(
        width / 8,
        [&](int i, MaxSum& own) {
          const Float8 x = widened(load8(logits, i));
          float max = own.max;
          for (int e = 0; e < 8; ++e) max = fmaxf(max, x.value[e]);
          float sum = own.sum * exp2_fast((own.max - max) * kLog2E);
          for (int e = 0; e < 8; ++e) sum += exp2_fast((x.value[e] - max) * kLog2E);
          own = {max, sum};
        },
        owns);
    const MaxSum total = block.merged(owns, MergeMaxSum());
    block.once([&] {
      const std::int64_t column = targets_T[row] - from;
      const bool here = column >= 0 && column < width;
      lse_T[row] = total.max + logf(total.sum);
      target_T[row] = here ? as_float(std::uint32_t{logits[column].bits} << 16) : 0;
    });
  }
};

/// Turns logits into the gradient of Σ weight · loss, in place: 4 bytes a logit. A row without a
/// target has weight 0 and becomes zeros, whatever it holds: 2 bytes.
struct CrossEntropyBackward {
  Bf16* logits_TV;
  const std::int64_t* targets_T;
  std::int64_t from;
  const float* lse_T;  ///< over the whole vocabulary
  const float* weight_T;
  int width;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const std::int64_t row = block.index();
    Bf16* logits = logits_TV + row * width;
    const float weight = weight_T[row], lse = lse_T[row];
    const std::int64_t column = targets_T[row] - from;
    if (weight == 0) {
      block.each(width / 8, [&](int i) { store8(logits, i, Bf16x8{}); });
      return;
    }
    block.each(width / 8, [&](int i) {
      Float8 d = widened(load8(logits, i));
      for (int e = 0; e < 8; ++e) {
        const float target = column == std::int64_t{8} * i + e ? 1 : 0;
        d.value[e] = weight * (exp2_fast((d.value[e] - lse) * kLog2E) - target);
      }
      store8(logits, i, rounded(d));
    });
  }
};

}  // namespace slimpack::fused::inline SLIMPACK_WAY
