// Step tokens: what a step trains on, by sequence and by MicroPack.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// The tokens of a step, int64, by SequenceId, and the number of next-token targets among them.
struct StepTokens {
  std::vector<at::Tensor> by_sequence;
  std::int64_t targets = 0;
};

/// Counts the targets: every token but the last of each sequence. Throws InvalidInput for a token
/// outside the vocabulary.
[[nodiscard]] StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                                          std::int64_t vocab_size);

/// The tokens of the rows of this share, each `shift` positions on: 0 for the rows themselves, 1
/// for their targets. kNoTarget beyond a sequence's end.
[[nodiscard]] at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share,
                                   std::int64_t shift);

}  // namespace slimpack
