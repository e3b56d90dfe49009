// The reports of `plan` and `simulate` on a planned step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/planner/planner.h"

namespace slimpack {

/// Rows of "name, value" for people; callers may append rows.
using ReportRows = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] ReportRows step_rows(const RatedPlan& step, const Costs& cost);

/// The rows, a blank line, and one line per stage with layers, busy time and share, and peak
/// activation: the highest in any timing of the plan, as comparisons have it. Lines have at most
/// `columns` columns.
[[nodiscard]] std::string step_report(const RatedPlan& step, const Costs& cost,
                                      const ReportRows& rows, int columns);

/// The number of layers by recomputation: {"elementwise": 24, "mlp": 8}.
[[nodiscard]] nlohmann::json recompute_figures(const RecomputeByLayer& recompute);

/// The figures of the report: {"format": "slimpack-prediction", "version": 2, …}, times in
/// nanoseconds, memory in bytes.
[[nodiscard]] nlohmann::json step_figures(const RatedPlan& step, const Costs& cost);

}  // namespace slimpack
