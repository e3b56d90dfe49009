// Baselines as steps: ordered and simulated like plans of ours.
#pragma once

#include <functional>

#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// The baseline's step in its published setting, with the orders that its runtime would run, and
/// its prediction. Each allowed policy of recomputation is tried for all layers. The shortest step
/// that keeps the memory cap is taken; if none does, the one that needs least memory. `granularity`
/// is not used. Deterministic. The lower bound allows what the baseline does: cuts at any token,
/// its merging. Throws InvalidInput as plan_step, and when a sequence exceeds the context.
[[nodiscard]] RatedPlan baseline_step(const Baseline& baseline, const StepQuestion& question);

struct TunedStep {
  RatedPlan step;
  Tuning tuning;
};

/// The best baseline_step of all tunings that the baseline's user would try (baselines/tuning.h).
/// Layers of a stage may differ in their recomputation where the choices and the baseline's system
/// allow it; backwards are split where both do. Groups may be as large as the costs know. Ranks of
/// a pipeline exchange attention where that is the baseline's way. A plan of plan_step is never
/// longer, if its `most_merged` allows such groups and it may exchange attention, too. `tick`, if
/// set, is called after each tuning. Cost: a simulation for each tuning that the bounds do not rule
/// out.
[[nodiscard]] TunedStep tuned_baseline(const Baseline& baseline, const StepQuestion& question,
                                       const std::function<void()>& tick = nullptr);
/// The table with the cheapest recomputation, by which the lower bound of the plan's step holds.
[[nodiscard]] StageTable bounding_table(const StepPlan& plan, const StepQuestion& question);
/// The granularity of cuts that the lower bound of the plan's step has to allow: one token if the
/// plan cuts any sequence.
[[nodiscard]] Tokens cut_unit(const StepPlan& plan, Tokens granularity);

}  // namespace slimpack
