// Order bound: how long a replica's orders take at least.
#pragma once

#include "slimpack/base/units.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// No step in which a replica has these orders and times is shorter: they run as simulated, but
/// channels are never full and no other replica is waited for. With reduction and optimizer. Knows
/// no bytes. REQUIRES: check_schedule is empty. Cost: O(actions).
[[nodiscard]] Nanos order_bound(const Schedule& schedule, const TaskTimes& times);

}  // namespace slimpack
