// What `plan` and `simulate` print and write about a planned step.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/planner/planner.h"

namespace slimpack {

/// Rows of "name, value" for people; further rows may be added below.
using ReportRows = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] ReportRows step_rows(const RatedPlan& step, const Costs& cost);

/// The rows, a blank line, and one line per stage: layers, busy time and share, peak activation; in
/// lines of at most `columns`.
[[nodiscard]] std::string step_report(const RatedPlan& step, const ReportRows& rows, int columns);

/// How many layers compute what again: {"elementwise": 24, "mlp": 8}.
[[nodiscard]] nlohmann::json recompute_figures(const RecomputeByLayer& recompute);

/// The same figures: {"format": "slimpack-prediction", "version": 2, …}; times in nanoseconds,
/// memory in bytes.
[[nodiscard]] nlohmann::json step_figures(const RatedPlan& step, const Costs& cost);

}  // namespace slimpack
