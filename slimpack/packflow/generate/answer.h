// An answer as its tokens come: what ends it, and what is told of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/language/cached_sequence.h"
#include "slimpack/packflow/language/sampler.h"
#include "slimpack/packflow/language/sparse_prefill.h"
#include "slimpack/packflow/speculate/speculator.h"

namespace slimpack {

struct GenerateSettings {
  std::int64_t max_new_tokens = 256;
  SamplingSettings sampling;
  std::vector<std::int64_t> stop_tokens;  ///< end the answer and are not part of it
  std::int64_t prefill_slice = PrefillSettings().slice;

  /// Throws InvalidInput.
  void require_sound() const;
};

enum class GenerateEnd : std::uint8_t {
  kLength,     ///< max_new_tokens
  kStopToken,  ///< the model ended the answer
  kPositions,  ///< the model has no further position
  kListener,   ///< whom it was told to wants no more
};
/// "length", "stop_token", "positions", "listener".
[[nodiscard]] std::string_view to_string(GenerateEnd end);

struct Generated {
  std::vector<std::int64_t> tokens;
  GenerateEnd end = GenerateEnd::kLength;
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;  ///< of the prompt, kept from the one before
  Nanos first_token{0};            ///< from the call to the first token
  Nanos decoding{0};               ///< from the first token to the end
  SpeculationFigures speculation;
  SparseFigures sparse;
};

/// Called with each token; returns false to end the answer.
using TokenListener = std::function<bool(std::int64_t token)>;

class Answer {
 public:
  /// Keeps references.
  Answer(const GenerateSettings& settings, const TokenListener& listener, Generated& made)
      : settings_(settings), listener_(listener), made_(made) {}

  /// Whether more may follow.
  bool take(std::int64_t token);
  bool take(std::span<const std::int64_t> tokens);
  /// Result: false, no more may follow.
  bool end(GenerateEnd end) {
    made_.end = end;
    return false;
  }

 private:
  const GenerateSettings& settings_;
  const TokenListener& listener_;
  Generated& made_;
};

}  // namespace slimpack
