// Memory of text generation on a CPU (packflow/generate), in bytes.
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// Tokens of a prompt that go through the model at once, unless asked otherwise.
inline constexpr Tokens kPrefillSlice{1024};

struct PromptQuestion {
  Decoder shape;
  Dtype dtype = Dtype::kBf16;
  Tokens prompt;
  Tokens answer;  ///< at most
  Tokens slice = kPrefillSlice;
};

/// The memory in use while the last slice of the prompt runs, beside the program itself. Decoding
/// takes less.
struct PromptMemory {
  Bytes weights;
  Bytes cache;   ///< keys and values of prompt and answer
  Bytes angles;  ///< rope's tables
  Bytes slice;   ///< the peak of a layer's tensors and a copy of a weight

  [[nodiscard]] Bytes total() const { return weights + cache + angles + slice; }
};

/// With dense attention; in bf16 on a processor with AMX, elsewhere its kernel takes less. Padding
/// of weights to whole panels is left out: under 1% unless the model is tiny. Throws InvalidInput
/// for a prompt without tokens, a negative answer, an empty slice, and a prompt that is longer than
/// the model's positions. Cost: O(1).
[[nodiscard]] PromptMemory prompt_memory(const PromptQuestion& question);

}  // namespace slimpack
