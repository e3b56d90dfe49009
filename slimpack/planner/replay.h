// Replay: a measured step simulated again, each action with its typical duration.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// A part of what a rank does in a step: its spans of one kind, stage and MicroPack.
using Work = std::tuple<std::int32_t, SpanKind, StageId, PackId>;

/// Nanoseconds that each part of the work took in a timeline. Waiting is no work. Cost:
/// O(spans · log(spans)).
[[nodiscard]] std::map<Work, double> busy_durations(const Timeline& timeline);

/// Predicts the step with measured durations: every action, reduction and optimizer takes the
/// median of its durations in the timelines of this step, on the slowest of a stage's
/// tensor-parallel ranks, and a reduction on the replica on which it is shortest. The difference to
/// a measured step comes from changing speeds of the machine; the difference to the prediction
/// comes from wrong costs. Transfers, and all else that timelines do not show, keep their predicted
/// times. REQUIRES: at least one timeline. Cost: O(spans · log(spans)).
[[nodiscard]] SimulationResult replay(const RatedPlan& step, const Costs& cost,
                                      std::span<const Timeline> measured);

}  // namespace slimpack
