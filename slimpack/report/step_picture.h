// A step as a picture: packed as usual above, as planned below.
#pragma once

#include <string>

#include "slimpack/planner/planner.h"

namespace slimpack {

/// timelines_svg of the same documents under the baseline "packed" and as planned, both predicted.
[[nodiscard]] std::string step_svg(const PlanFile& file, const PlanLimits& limits);

}  // namespace slimpack
