// Ticks: the common clock of a step's orders.
#pragma once

#include <span>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/step_graph.h"

namespace slimpack {

/// In a tick a rank runs a forward at most and then a backward at most. The rows that it sends are
/// used in the next tick (SlimPipe's ticks, arXiv:2504.14519). Each action has the first tick that
/// its rank's order, its input, a free slot for its output and its other replicas allow. The start
/// of a node is half a tick: in tick t forwards start at 2t, backwards at 2t + 1. Weight gradients
/// have no ticks.
/// REQUIRES: check_plan is empty, and check_step too but for E, H and G, of which the
/// orders have none. Cost: O(actions).
[[nodiscard]] StepGraph ticks(const StepPlan& plan, std::span<const Schedule> orders,
                              int slots = kChannelSlots);

}  // namespace slimpack
