// The step that slices are held against.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// One rank; every document in a MicroPack of its own, forward and at once backward: no pipeline,
/// no slices.
[[nodiscard]] RatedPlan whole_documents(const SequenceLengths& lengths, const Costs& cost);

}  // namespace slimpack
