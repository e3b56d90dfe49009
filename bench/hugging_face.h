// Hugging Face's layers on the documents of a benchmark, as their own program.
#pragma once

#include <cstdint>
#include <string>

#include "slimpack/base/units.h"

namespace slimpack {

/// The step that bench/torch_pipelining.py runs: its documents are those of bench/documents.h.
struct HuggingFaceStep {
  std::string python;  ///< interpreter that has torch and transformers
  Tokens context;
  Tokens step_tokens;
  std::int64_t layers = 0;
  std::int64_t seed = 0;
};

/// Time of the step on one pinned rank, each document whole, after a short warm-up. Throws
/// InvalidInput when the interpreter cannot run it.
[[nodiscard]] Nanos hugging_face_step(const HuggingFaceStep& step);

}  // namespace slimpack
