// Batch generator: goes on from many prompts, several at the same time.
//
// One pass of the model gives each of them a token, and reads the weights once. An answer that ends
// makes room for the next prompt at once (continuous batching, as in Orca and vLLM).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "slimpack/packflow/generate/answer.h"
#include "slimpack/packflow/language/language_model.h"

namespace slimpack {

struct BatchPrompt {
  std::vector<std::int64_t> tokens;
  std::uint64_t seed = 0;  ///< of sampling, in place of that of the settings
};

/// Called with each token and the number of its prompt; returns false to end that answer.
using BatchListener = std::function<bool(std::size_t prompt, std::int64_t token)>;

/// The answers in the order of the prompts, `batch` of them made at the same time. An answer does
/// not depend on those beside it, but for rounding: a place keeps its last sequence, and a prompt
/// that begins like it runs in other slices. Its `decoding` counts the time until its end, others'
/// passes included. An exception of the listener ends all answers. Throws InvalidInput for unsound
/// settings, an empty batch and what Generator refuses of a prompt.
[[nodiscard]] std::vector<Generated> generate_batch(LanguageModel& model,
                                                    std::span<const BatchPrompt> prompts,
                                                    std::int64_t batch,
                                                    const GenerateSettings& settings,
                                                    const BatchListener& listener);

}  // namespace slimpack
