// Ticks: the common clock of a step's orders, and the context exchanges that ranks make in a tick.
#pragma once

#include <span>
#include <vector>

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

/// For each replica, exchanges that even attention out between the ranks of its pipeline. In each
/// half of a tick the rank whose MicroPack has most query-key pairs gives keys to the one
/// with fewest, the second most to the second fewest, and so on, until both have equally many
/// (SlimPipe, arXiv:2504.14519, section 4.2). Merged MicroPacks take no part. Ascending; empty for
/// orders in which ranks run nothing at the same time. REQUIRES: check_plan and
/// check_step are empty. Cost: O(actions · ranks).
[[nodiscard]] std::vector<std::vector<ContextExchange>> context_exchanges(
    const StepPlan& plan, const std::vector<Schedule>& schedules, int slots = kChannelSlots);

}  // namespace slimpack
