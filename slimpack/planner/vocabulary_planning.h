// Vocabulary planning: what the planner does about a vocabulary that is spread over the pipeline.
#pragma once

#include <cstddef>

#include "slimpack/cost/task_costs.h"
#include "slimpack/planner/planner.h"

namespace slimpack {

/// A list scheduler knows no actions that all ranks run together. For its sake each rank has E with
/// the forwards of its first stage, and H and G with the backwards; and as gradients are used a
/// tick after they are sent (vocabulary_actions.h), they travel as long as a forward takes. Its
/// orders then have as many forwards in flight as the ticks need. REQUIRES: times of a layout that
/// spreads the vocabulary. `times.joint` is left as it is.
void fold_vocabulary(TaskTimes& times);

/// Folds bytes: peaks of E, H and G count as those of the MicroPack's forward or backward.
void fold_vocabulary(TaskBytes& bytes, std::size_t ranks);

/// Puts E, H and G into the step's schedules, and forgets what list scheduling says of its memory.
/// Does nothing if the layout does not spread the vocabulary.
void put_vocabulary_in(RatedPlan& step);

}  // namespace slimpack
