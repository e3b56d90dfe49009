// Reports many steps of a run: how their figures spread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/report/comparison.h"

namespace slimpack {

/// The steps of a run under one planner. Every planner has the same steps.
struct PlannerSteps {
  std::string planner;
  std::vector<ComparedPlanner> steps;  ///< at least one
};

/// A row for each figure with its mean, p50, p95 and worst. Means of tokens a second and of MFU are
/// those of all steps together. With less than 20 steps p95 is the worst and is left out. Lines
/// have at most `columns` columns. REQUIRES: every step has figures.
[[nodiscard]] std::string steps_text(const PlannerSteps& steps, int columns);

/// A row for each planner with the spread of its makespans, and how many steps it cannot run within
/// `cap`. Below, our mean against that of the fastest other planner. Both run all steps.
[[nodiscard]] std::string steps_comparison_text(const std::vector<PlannerSteps>& planners,
                                                const std::optional<Bytes>& cap, int columns);

/// {"format": "slimpack-steps", "version": 1, "planners": [{"planner": …, "steps": […],
/// "makespan_ns": {"mean": …, "p50": …, "p95": …, "worst": …}}], "known_error": …}. Spreads are
/// null where a step has no figures.
[[nodiscard]] nlohmann::json steps_json(const std::vector<PlannerSteps>& planners,
                                        const Costs& cost);

}  // namespace slimpack
