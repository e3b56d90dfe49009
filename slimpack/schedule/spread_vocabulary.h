// Spread vocabulary: E, H and G, which all ranks of a pipeline run together. List scheduling knows
// none of them: they are folded into other actions before it and put into its orders after it.
#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// A list scheduler knows no actions that all ranks run together. For its sake each rank has E with
/// the forwards of its first stage, and H and G with the backwards; and as gradients are used a
/// tick after they are sent (ticks.h), they travel as long as a forward takes. Its
/// orders then have as many forwards in flight as the ticks need. REQUIRES: times of a layout that
/// spreads the vocabulary. `times.joint` is left as it is.
void fold_vocabulary(TaskTimes& times);

/// Folds bytes: peaks of E, H and G count as those of the MicroPack's forward or backward.
void fold_vocabulary(TaskBytes& bytes, std::size_t ranks);

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
