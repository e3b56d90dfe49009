// Rules that a request for a plan has to keep.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// Throws InvalidInput with value, rule and remedy for the first rule that is broken.
void require_sensible(const PlanRequest& request, const CostModel& cost);

}  // namespace slimpack
