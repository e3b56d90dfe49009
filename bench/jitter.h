// Jitter: how much an action's duration changes from one run of a step to the next, and what a step
// takes when durations change that much.
#pragma once

#include <cstdint>
#include <span>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The standard deviation of the logarithm of what ranks take for a piece of work, between
/// timelines of the same step; about the coefficient of variation where small. Work counts by how
/// long it takes. A factor that all work of a timeline has in common (a machine that is slower for
/// a whole step) is left out: it delays nobody. 0 where no work is in every timeline. REQUIRES: at
/// least two timelines. Cost: O(spans · log(spans)).
[[nodiscard]] double jitter_of(std::span<const Timeline> measured);

/// Means over the draws.
struct JitteredStep {
  Nanos makespan;
  double bubble_ratio = 0;
};

/// Predicts the step as predict does, but multiplies the duration of every action, reduction and
/// optimizer by a log-normal factor of its own, with mean 1 and `jitter` as above. A static order
/// cannot answer to these factors, so that a step takes longer than the mean durations say.
/// REQUIRES: jitter >= 0, draws >= 1.
/// Cost: `draws` simulations. Deterministic.
[[nodiscard]] JitteredStep predict_with_jitter(const RatedPlan& step, const Costs& cost,
                                               double jitter, std::int32_t draws = 20);

}  // namespace slimpack
