// The question that a run's configuration puts to the fit advice.
#pragma once

#include <string>

#include "slimpack/job/step_planning.h"
#include "slimpack/planner/fit_advice.h"

namespace slimpack {

/// The question but for the step's lengths. tp may grow up to a node, but stays where costs were
/// measured, because they hold for one tp.
[[nodiscard]] FitQuestion configured_fit(const StepPlanning& planning);

/// One line that says why tp stays; empty where it need not.
[[nodiscard]] std::string fixed_tp_text(const RunConfig& config);

}  // namespace slimpack
