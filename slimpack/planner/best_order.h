// Best order: of several orders of the same MicroPacks, where list scheduling is not the last word:
// its search knows only roughly what several ranks run together.
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

/// The best of several orders of a step that was list scheduled, with its prediction: the shortest
/// of those that keep the cap, else the one that needs least memory. The orders are:
///  - the step's own;
///  - those that run a forward and a backward in each tick (sliced_one_f_one_b);
///  - with a spread vocabulary and one stage a rank, list schedules that place E, H and G
///    themselves. The others get E, H and G put in.
/// Each is also tried with context exchanges if `exchange_context` is set.
[[nodiscard]] OrderedStep best_ordered(RatedPlan listed, const Costs& cost,
                                       const std::optional<Bytes>& cap, bool exchange_context);

}  // namespace slimpack
