#include "slimpack/packflow/step/step_tokens.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/head.h"

namespace slimpack {

StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                            std::int64_t vocab_size) {
  StepTokens result;
  for (const auto& sequence : sequences) {
    for (const std::int64_t token : sequence)
      if (token < 0 || token >= vocab_size)
        invalid_input(
            "token {} lies outside the model's vocabulary of {}; the dataset was built "
            "with another tokenizer",
            token, vocab_size);
    at::Tensor tokens_L = at::full({static_cast<std::int64_t>(sequence.size())}, 0, at::kLong);
    std::ranges::copy(sequence, tokens_L.mutable_data_ptr<std::int64_t>());
    result.by_sequence.push_back(std::move(tokens_L));
    result.targets += sequence.empty() ? 0 : static_cast<std::int64_t>(sequence.size()) - 1;
  }
  return result;
}

at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share, std::int64_t shift) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < share.pack().slices.size(); ++i) {
    const Slice& s = share.pack().slices[i];
    const RowShare own = share.of(i);
    const std::int64_t rows = own.rows(s).count();
    if (rows == 0) continue;
    const at::Tensor& tokens_L = tokens.by_sequence.at(s.sequence.index());
    const std::int64_t begin = own.first(s).count() + shift;
    const std::int64_t end = std::min(begin + rows * own.replicas, tokens_L.size(0));
    parts.push_back(tokens_L.slice(0, std::min(begin, end), end, own.replicas));
    const std::int64_t missing = rows - parts.back().size(0);
    if (missing > 0) parts.push_back(at::full({missing}, kNoTarget, at::kLong));
  }
  if (parts.empty()) parts.push_back(at::full({0}, kNoTarget, at::kLong));
  return joined_rows(parts);
}

}  // namespace slimpack
