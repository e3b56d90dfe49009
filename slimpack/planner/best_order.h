// Best order: of a list schedule and a regular one, where list scheduling is not the last word.
#pragma once

#include <optional>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

struct OrderedStep {
  RatedPlan step;
  RankNeed need;
};

/// A step that was list scheduled, with its prediction; with E, H and G if the layout spreads the
/// vocabulary. Its orders, or those that run a forward and a backward in each tick
/// (sliced_one_f_one_b), each also with context exchanges if it may have them: of those that keep
/// the cap the shortest, else what needs least memory.
[[nodiscard]] OrderedStep best_ordered(RatedPlan listed, const Costs& cost,
                                       const std::optional<Bytes>& cap, bool exchange_context);

}  // namespace slimpack
