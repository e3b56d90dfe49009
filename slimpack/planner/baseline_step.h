// Baselines as steps: ordered and simulated like plans of ours.
#pragma once

#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The baseline's plan with the orders that its runtime would run, and its prediction. Each allowed
/// policy of recomputation is tried for all layers. Of those that keep the memory cap, the shortest
/// step is taken; when none does, the one that needs least memory. Only list-scheduled baselines
/// look at the cap when they order their packs; step_need tells whether the others fit.
/// `granularity` is not used. Deterministic. The lower bound allows what the baseline does: cuts at
/// any token, its merging. Throws InvalidInput as plan_step, and when a sequence exceeds the
/// context.
[[nodiscard]] RatedPlan baseline_step(const Baseline& baseline, const Job& job,
                                      const SequenceLengths& lengths, const Choices& choices,
                                      const Costs& cost);

/// What the lower bound of a baseline's step has to allow: the most replicas that run a MicroPack
/// together; and the granularity of cuts, which is one token if the plan cuts any sequence.
[[nodiscard]] std::int32_t most_merged(const StepPlan& plan);
[[nodiscard]] Tokens cut_unit(const StepPlan& plan, Tokens granularity);

}  // namespace slimpack
