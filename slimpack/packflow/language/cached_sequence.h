// A sequence whose keys and values are kept from prompt to prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "slimpack/cost/prompt_memory.h"
#include "slimpack/packflow/language/language_model.h"

namespace slimpack {

/// Called with the states of a slice of the prompt: those of rows [first, first + T).
using SliceStates = std::function<void(std::int64_t first, const RowStates& states)>;

struct PrefillSettings {
  /// Tokens that go through the model at once: what bounds the memory of activations.
  std::int64_t slice = kPrefillSlice.count();
  std::vector<std::int64_t> feature_layers = {};
  /// Runs one token more than it must of what the sequence has: who is told of states needs the
  /// last one's.
  bool runs_again = false;
  SliceStates on_slice = {};
  SparsePrefill* sparse = nullptr;  ///< null = dense attention
};

/// Tokens and their keys and values. Does not own the model.
class CachedSequence {
 public:
  explicit CachedSequence(LanguageModel& model) : model_(&model), cache_(model.make_cache()) {}

  [[nodiscard]] const std::vector<std::int64_t>& tokens() const { return tokens_; }
  [[nodiscard]] KeyValueCache& cache() { return cache_; }

  /// Makes the sequence that of the prompt. The beginning of the prompt that the sequence has
  /// already is not run again, except the last token. Result: the last token's logits [V]. `room`:
  /// tokens in all to make room for. Throws InvalidInput for an empty prompt, and as
  /// LanguageModel::run, the sequence empty then.
  [[nodiscard]] at::Tensor prefill(std::span<const std::int64_t> prompt, std::int64_t room,
                                   const PrefillSettings& settings);

  /// How many tokens of the last prompt were there already.
  [[nodiscard]] std::int64_t reused() const { return reused_; }

  /// Runs one token and appends it. Result: its logits [V].
  [[nodiscard]] at::Tensor decode(std::int64_t token);

  [[nodiscard]] NextToken next(std::int64_t token) { return {cache_, token}; }

  /// Counts tokens whose keys and values the cache has got.
  void append(std::span<const std::int64_t> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  void truncate(std::int64_t size);

 private:
  LanguageModel* model_;
  KeyValueCache cache_;
  std::vector<std::int64_t> tokens_;
  std::int64_t reused_ = 0;
};

}  // namespace slimpack
