// Checks of every correct step, whoever planned it. They share no code with planners. Each ends the
// running rapidcheck property when it fails.
#pragma once

#include "slimpack/planner/planner.h"
#include "tests/conformance/step_makers.h"
#include "tests/conformance/workload.h"

namespace slimpack::conformance {

/// Counted token by token: each is once in forward and once in backward, where a MicroPack that
/// several replicas run together stands in the plans of them all and counts once.
void require_every_token_once(const StepPlan& plan);

/// The plan's own rules, the request's, and the orders of all replicas together.
void require_correct(const MadeStep& made);

/// In simulated time: slices of a sequence in their order on every stage, stages one after the
/// other, backward after all of the sequence's forward, merged MicroPacks at the same time.
void require_causal(const RatedPlan& step, const Costs& cost);

/// The prediction is what the simulator says of the plan in the step's own ids; it is no less than
/// the lower bound, which is no less than the work of any stage; and the gap is their ratio.
void require_predicted(const MadeStep& made, const Costs& cost);

/// No rank holds more than `rank_needs` says, planned or when ranks are as fast as `drift`; and
/// none more than the request's cap; nor, where nothing may be merged, in any timing.
void require_memory(const MadeStep& made, const Costs& cost,
                    const std::vector<std::vector<double>>& drift);

/// The step's plan file holds the same step.
void require_round_trip(const RatedPlan& step, const Costs& cost);

/// The two steps are equal in every field.
void require_same(const RatedPlan& a, const RatedPlan& b);

/// All of the above but the last.
void require_conforming(const MadeStep& made, const Workload& workload);

}  // namespace slimpack::conformance
