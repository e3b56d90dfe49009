// What `fit` prints and writes about a job's memory.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "slimpack/planner/fit_advice.h"

namespace slimpack {

/// Memory by stage, the verdict, and what would fit, in lines of at most `columns`. `fixed_tp`: why
/// tp was not changed; may be empty.
[[nodiscard]] std::string fit_text(const FitAdvice& advice, std::string_view fixed_tp, int columns);

/// The same figures: {"format": "slimpack-fit", "version": 2, …}; bytes and nanoseconds.
[[nodiscard]] nlohmann::json fit_figures(const FitAdvice& advice);

}  // namespace slimpack
