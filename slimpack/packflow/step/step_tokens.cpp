#include "slimpack/packflow/step/step_tokens.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/head.h"

namespace slimpack {
namespace {

void require_in_vocabulary(const std::vector<std::int64_t>& tokens, std::int64_t vocab_size) {
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= vocab_size)
      invalid_input(
          "token {} lies outside the model's vocabulary of {}; the dataset was built "
          "with another tokenizer",
          token, vocab_size);
}

/// A row predicts the token after it, if that is a target.
SequenceTensors tensors_of(const SequenceTokens& sequence) {
  const auto& [tokens, targets] = sequence;
  SLIMPACK_CHECK(tokens.size() == targets.size() && (targets.empty() || targets.front() == 0),
                 "{} tokens, {} entries of targets", tokens.size(), targets.size());
  const auto length = static_cast<std::int64_t>(tokens.size());
  SequenceTensors rows{at::empty({length}, at::kLong), at::full({length}, kNoTarget, at::kLong)};
  std::ranges::copy(tokens, rows.tokens_L.mutable_data_ptr<std::int64_t>());
  auto* const targets_L = rows.targets_L.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 1; i < tokens.size(); ++i)
    if (targets[i] != 0) targets_L[i - 1] = tokens[i];
  return rows;
}

at::Tensor rows_of(const StepTokens& tokens, at::Tensor SequenceTensors::*tensor_L,
                   const PackShare& share) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < share.pack().slices.size(); ++i) {
    const Slice& s = share.pack().slices[i];
    const RowShare own = share.of(i);
    const std::int64_t rows = own.rows(s).count();
    if (rows == 0) continue;
    const at::Tensor& of_sequence_L = tokens.by_sequence.at(s.sequence.index()).*tensor_L;
    const std::int64_t begin = own.first(s).count();
    const std::int64_t end = std::min(begin + rows * own.replicas, of_sequence_L.size(0));
    parts.push_back(of_sequence_L.slice(0, begin, end, own.replicas));
  }
  if (parts.empty()) parts.push_back(at::empty({0}, at::kLong));
  return joined_rows(parts);
}

}  // namespace

StepTokens make_step_tokens(std::span<const SequenceTokens> sequences, std::int64_t vocab_size) {
  StepTokens result;
  for (const SequenceTokens& sequence : sequences) {
    require_in_vocabulary(sequence.tokens, vocab_size);
    result.by_sequence.push_back(tensors_of(sequence));
    result.targets += count_of(sequence.targets);
  }
  return result;
}

StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                            std::int64_t vocab_size) {
  std::vector<SequenceTokens> with_targets;
  for (const auto& tokens : sequences) with_targets.push_back({tokens, all_targets(tokens.size())});
  return make_step_tokens(with_targets, vocab_size);
}

at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share) {
  return rows_of(tokens, &SequenceTensors::tokens_L, share);
}

at::Tensor targets_of(const StepTokens& tokens, const PackShare& share) {
  return rows_of(tokens, &SequenceTensors::targets_L, share);
}

}  // namespace slimpack
