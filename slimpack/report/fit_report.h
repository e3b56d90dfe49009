// The report of `fit` on the memory of a job, or of text generation (`fit --prompt`).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/cost/prompt_memory.h"
#include "slimpack/planner/fit_advice.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The reader of a report, who sets its advice in this way.
enum class Reader : std::uint8_t {
  kProgram,  ///< --set plan.recompute=auto, keys of a run configuration
  kPython,   ///< Job(..., recompute="auto")
};

/// Settings such as "plan.recompute=auto" or "parallel.tp=4". In Python a job's `parallel` is one
/// argument, so a changed number of ranks gives the whole grid. REQUIRES: settings of [plan] and
/// [parallel]; `grid` as they change it.
[[nodiscard]] std::string setting_text(const std::vector<std::string>& settings,
                                       const ParallelGrid& grid, Reader reader);

/// Memory by stage, the verdict, and changes that would fit, in lines of at most `columns`.
/// `fixed_tp`: why tp was not changed; may be empty. `reader`: who is told what to change.
[[nodiscard]] std::string fit_text(const FitAdvice& advice, std::string_view fixed_tp, int columns,
                                   Reader reader);

/// The figures of fit_text: {"format": "slimpack-fit", "version": 2, …}, in bytes and nanoseconds.
[[nodiscard]] nlohmann::json fit_figures(const FitAdvice& advice);

/// A table of the parts and their sum.
[[nodiscard]] std::string prompt_text(const PromptQuestion& question);

/// The report as JSON: {"format": "slimpack-fit-prompt", "version": 1, …}, in bytes.
[[nodiscard]] nlohmann::json prompt_figures(const PromptQuestion& question);

}  // namespace slimpack
