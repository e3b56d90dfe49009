// Sampling: which token follows, by the logits of the last one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "slimpack/base/random.h"

namespace slimpack {

/// Names and order of the filters are those of transformers and llama.cpp.
struct SamplingSettings {
  double temperature = 0;  ///< 0 = always the likeliest token
  std::int64_t top_k = 0;  ///< keeps the k likeliest tokens; 0 = all
  double top_p = 1;        ///< keeps the likeliest tokens that have this much probability together
  double min_p = 0;  ///< keeps tokens of at least this share of the likeliest one's probability
  std::uint64_t seed = 0;

  /// Throws InvalidInput naming the setting and its range.
  void require_sound() const;
};

class TokenSampler {
 public:
  /// Throws as require_sound.
  explicit TokenSampler(const SamplingSettings& settings);

  [[nodiscard]] bool greedy() const { return settings_.temperature == 0; }

  /// The next token, by logits [V] on the CPU. Among equal logits the first is the likeliest.
  [[nodiscard]] std::int64_t next(const at::Tensor& logits_V);

  /// The probabilities of all tokens after temperature and filters. REQUIRES: not greedy().
  [[nodiscard]] std::vector<double> probabilities(const at::Tensor& logits_V) const;

  /// Draws an index by weights, which need not add up to 1. REQUIRES: a positive one.
  [[nodiscard]] std::int64_t draw(const std::vector<double>& weights);
  /// True with that probability.
  [[nodiscard]] bool happens(double probability) { return rng_.uniform() < probability; }

 private:
  SamplingSettings settings_;
  Rng rng_;
};

}  // namespace slimpack
