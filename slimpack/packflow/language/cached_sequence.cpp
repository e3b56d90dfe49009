#include "slimpack/packflow/language/cached_sequence.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

void CachedSequence::truncate(std::int64_t size) {
  cache_.truncate(size);
  tokens_.resize(std::min(tokens_.size(), static_cast<std::size_t>(size)));
}

at::Tensor CachedSequence::prefill(std::span<const std::int64_t> prompt, std::int64_t room,
                                   const PrefillSettings& settings) {
  if (prompt.empty()) invalid_input("the prompt has no token; give some text to go on from");
  const auto size = static_cast<std::int64_t>(prompt.size());
  const std::int64_t positions = model_->shape().max_positions.count();
  if (size > positions)
    invalid_input("the prompt has {} tokens, the model {} positions; shorten the prompt", size,
                  positions);
  const auto same = std::ranges::mismatch(tokens_, prompt).in1 - tokens_.begin();
  reused_ = std::min<std::int64_t>(same, size - 1);
  if (settings.runs_again) reused_ = std::max<std::int64_t>(0, reused_ - 1);
  truncate(reused_);
  model_->reserve(cache_, std::min(room, positions));
  at::Tensor last_1H;
  while (cache_.size() < size) {
    const std::int64_t first = cache_.size();
    const auto slice =
        prompt.subspan(static_cast<std::size_t>(first),
                       static_cast<std::size_t>(std::min(settings.slice, size - first)));
    if (settings.sparse != nullptr)
      settings.sparse->begin_slice(first + static_cast<std::int64_t>(slice.size()) == size);
    const RowStates states = model_->run(
        cache_,
        {.tokens = slice, .feature_layers = settings.feature_layers, .sparse = settings.sparse});
    append(slice);
    if (settings.on_slice) settings.on_slice(first, states);
    last_1H = states.hidden_TH.narrow(0, states.hidden_TH.size(0) - 1, 1);
  }
  return model_->logits(last_1H)[0];
}

at::Tensor CachedSequence::decode(std::int64_t token) {
  const std::span<const std::int64_t> row(&token, 1);
  const RowStates states = model_->run(cache_, {.tokens = row});
  append(row);
  return model_->logits(states.hidden_TH)[0];
}

}  // namespace slimpack
