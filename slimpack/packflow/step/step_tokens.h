// Step tokens: what a step trains on, by sequence and by MicroPack.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/data/sequences.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// A sequence by row, int64.
struct SequenceTensors {
  at::Tensor tokens_L;
  at::Tensor targets_L;  ///< the token that the row predicts for the loss; kNoTarget = none
};

/// The sequences of a step by SequenceId, and the number of their targets.
struct StepTokens {
  std::vector<SequenceTensors> by_sequence;
  std::int64_t targets = 0;
};

/// Throws InvalidInput for a token outside the vocabulary.
[[nodiscard]] StepTokens make_step_tokens(std::span<const SequenceTokens> sequences,
                                          std::int64_t vocab_size);
/// All tokens are targets (all_targets).
[[nodiscard]] StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                                          std::int64_t vocab_size);

/// tokens_L and targets_L of the rows of this share.
[[nodiscard]] at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share);
[[nodiscard]] at::Tensor targets_of(const StepTokens& tokens, const PackShare& share);

}  // namespace slimpack
