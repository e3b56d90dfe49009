// Replay: a step as it would have gone had every action lasted what it typically lasts.
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

/// What a rank does in a step: all spans of the same kind and MicroPack.
using Work = std::tuple<std::int32_t, SpanKind, PackId>;

/// By work of a timeline, in ns. Waits are none. Cost: O(spans · log(spans)).
[[nodiscard]] std::map<Work, double> busy_durations(const Timeline& timeline);

/// As predict, but every action, reduction and optimizer lasts the median of what it lasted in the
/// measured timelines of this step, on the slowest of a stage's tensor-parallel ranks. Beside a
/// measured step it shows what came of a machine whose speed changes; beside the prediction, what
/// came of wrong costs. What the timelines do not show keeps its predicted time: transfers above
/// all. REQUIRES: at least one timeline.
/// Cost: O(spans · log(spans)).
[[nodiscard]] SimulationResult replay(const RatedPlan& step, const Costs& cost,
                                      std::span<const Timeline> measured);

}  // namespace slimpack
