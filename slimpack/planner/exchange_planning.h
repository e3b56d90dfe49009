// Exchange planning: which context exchanges a step is better off with.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// Puts exchanges into the step's schedules, which have none: of those that would even attention
/// out (context_exchanges.h), each that shortens the longer of its two actions. Forgets what list
/// scheduling says of the step's memory. Does nothing where layers cannot exchange.
void put_exchanges_in(RatedPlan& step, const Costs& cost);

/// Whether any schedule of the step has an exchange.
[[nodiscard]] bool has_exchanges(const RatedPlan& step);

}  // namespace slimpack
