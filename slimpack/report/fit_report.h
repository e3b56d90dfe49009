// The report of `fit` on a job's memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "slimpack/planner/fit_advice.h"
#include "slimpack/report/setting_text.h"

namespace slimpack {

/// Memory by stage, the verdict, and changes that would fit, in lines of at most `columns`.
/// `fixed_tp`: why tp was not changed; may be empty. `reader`: who is told what to change.
[[nodiscard]] std::string fit_text(const FitAdvice& advice, std::string_view fixed_tp, int columns,
                                   Reader reader);

/// The figures of fit_text: {"format": "slimpack-fit", "version": 2, …}, in bytes and nanoseconds.
[[nodiscard]] nlohmann::json fit_figures(const FitAdvice& advice);

}  // namespace slimpack
