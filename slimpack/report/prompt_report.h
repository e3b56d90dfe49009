// The report of `fit --prompt` on the memory of text generation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "slimpack/cost/prompt_memory.h"

namespace slimpack {

/// A table of the parts and their sum.
[[nodiscard]] std::string prompt_text(const PromptQuestion& question);

/// The report as JSON: {"format": "slimpack-fit-prompt", "version": 1, …}, in bytes.
[[nodiscard]] nlohmann::json prompt_figures(const PromptQuestion& question);

}  // namespace slimpack
