// Context exchanges: who runs a part of whose attention.
#pragma once

#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// For each replica, exchanges that even attention out between the ranks of its pipeline. In each
/// half of a tick (ticks.h) the rank whose MicroPack has most query-key pairs gives keys to the one
/// with fewest, the second most to the second fewest, and so on, until both have equally many
/// (SlimPipe, arXiv:2504.14519, section 4.2). Merged MicroPacks take no part. Ascending; empty for
/// orders in which ranks run nothing at the same time. REQUIRES: check_plan and
/// check_step are empty. Cost: O(actions · ranks).
[[nodiscard]] std::vector<std::vector<ContextExchange>> context_exchanges(
    const StepPlan& plan, const std::vector<Schedule>& schedules, int slots = kChannelSlots);

}  // namespace slimpack
