// Best order: of a list schedule and a regular one, where list scheduling is not the last word: it
// knows nothing of what several ranks run together.
#pragma once

#include <optional>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// Puts E, H and G into the step's schedules if its layout spreads the vocabulary, and forgets what
/// list scheduling says of its memory.
void put_vocabulary_in(RatedPlan& step);

/// Puts exchanges into the step's schedules, which have none: of those that would even attention
/// out (ticks.h), each that shortens the longer of its two actions. Forgets what list
/// scheduling says of the step's memory. Does nothing where layers cannot exchange.
void put_exchanges_in(RatedPlan& step, const Costs& cost);

/// Whether any schedule of the step has an exchange.
[[nodiscard]] bool has_exchanges(const RatedPlan& step);

struct OrderedStep {
  RatedPlan step;
  RankNeed need;
};

/// A step that was list scheduled, with its prediction; with E, H and G if the layout spreads the
/// vocabulary. It has its orders, those that run a forward and a backward in each tick
/// (sliced_one_f_one_b), or, with a spread vocabulary and a stage a rank, list schedules that know
/// E, H and G. Each also has context exchanges if it may have them. Of those that keep the cap it
/// is the shortest, else it is what needs least memory.
[[nodiscard]] OrderedStep best_ordered(RatedPlan listed, const Costs& cost,
                                       const std::optional<Bytes>& cap, bool exchange_context);

}  // namespace slimpack
