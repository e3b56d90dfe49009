// Generator: goes on from prompts, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/packflow/generate/answer.h"
#include "slimpack/packflow/language/cached_sequence.h"
#include "slimpack/packflow/language/language_model.h"
#include "slimpack/packflow/language/sampler.h"
#include "slimpack/packflow/speculate/speculator.h"

namespace slimpack {

/// One sequence at a time. Keeps the last one, so that a prompt that begins like it costs only the
/// rest. Does not own the model. Not thread-safe.
class Generator {
 public:
  explicit Generator(LanguageModel& model) : sequence_(model), model_(&model) {}
  /// With speculation.
  Generator(LanguageModel& model, std::unique_ptr<Draft> draft, std::unique_ptr<TreeRule> rule)
      : sequence_(model),
        model_(&model),
        speculator_(std::in_place, model, std::move(draft), std::move(rule)) {}

  /// Prompts from now on take sparse attention, or dense attention.
  void use_sparse(std::optional<SparsePrefill> sparse) { sparse_ = std::move(sparse); }

  /// Forgets the last sequence.
  void forget() { sequence_.truncate(0); }

  /// Throws InvalidInput for unsound settings and as CachedSequence::prefill.
  [[nodiscard]] Generated generate(std::span<const std::int64_t> prompt,
                                   const GenerateSettings& settings, const TokenListener& listener);

  /// Σ −log p of the text's tokens from `from` on, in nats, each given all before it. Runs the
  /// whole text; the sequence is the text afterwards. Throws as generate(). REQUIRES: from ≥ 1.
  [[nodiscard]] double nats(std::span<const std::int64_t> text, std::int64_t from,
                            const GenerateSettings& settings);

 private:
  PrefillSettings prefill_settings(const GenerateSettings& settings);
  /// The tokens after `token`: one or more.
  std::vector<std::int64_t> next_tokens(std::int64_t token, TokenSampler& sampler);

  CachedSequence sequence_;
  LanguageModel* model_;
  std::optional<Speculator> speculator_;
  std::optional<SparsePrefill> sparse_;
};

}  // namespace slimpack
