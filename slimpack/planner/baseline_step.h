// Baselines as steps: ordered and simulated like plans of ours.
#pragma once

#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The baseline's plan with the orders that its runtime would run and what they are expected to
/// take. Of the recomputations of all layers that may be chosen, the one with the shortest step
/// among those that keep the memory cap is taken; when none does, the one that needs least memory.
/// Only list-scheduled baselines know the cap when they order their packs; the others run as they
/// do, and step_need tells whether they fit. `granularity` is not used. Deterministic. The lower
/// bound allows what the baseline does: cuts at any token, its merging. Throws InvalidInput as
/// plan_step, and when a sequence exceeds the context.
[[nodiscard]] RatedPlan baseline_step(const Baseline& baseline, const Job& job,
                                      const SequenceLengths& lengths, const Choices& choices,
                                      const Costs& cost);

/// What bounds of a baseline's step have to allow: the most replicas that run a MicroPack together,
/// and where sequences are cut: at multiples of the granularity where none is, else at any token.
[[nodiscard]] std::int32_t most_merged(const StepPlan& plan);
[[nodiscard]] Tokens cut_unit(const StepPlan& plan, Tokens granularity);

}  // namespace slimpack
