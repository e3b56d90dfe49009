// Vocabulary actions: E, H and G put into the orders of a step whose vocabulary is spread over the
// pipeline.
#pragma once

#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// The orders of all replicas with E, H and G, if the plan's layout spreads the vocabulary; else as
/// they are. All ranks of a pipeline run these together, so they wait for each other once a tick.
/// In a tick a rank runs a forward at most, then the E, H and G that are due, then a backward at
/// most; the rows that it sends are used in the next tick (SlimPipe's ticks, arXiv:2504.14519). The
/// order of the other actions stays. Orders with two forwards ahead per rank (sliced_one_f_one_b)
/// have a forward and a backward in each tick and so wait for nothing; others leave some ticks half
/// empty.
/// REQUIRES: check_plan is empty and check_step too, but for E, H and G, of which the
/// orders have none. Cost: O(actions · ranks), more for merged packs.
[[nodiscard]] std::vector<Schedule> with_vocabulary(const StepPlan& plan,
                                                    std::vector<Schedule> schedules,
                                                    int slots = kChannelSlots);

}  // namespace slimpack
