// Recut: moves the cuts of a found step one by one, where that makes the step shorter.
#pragma once

#include <cstdint>

#include "slimpack/planner/step_problem.h"
#include "slimpack/planner/step_search.h"

namespace slimpack {

/// The candidates of a search have MicroPacks of one size but for the taper. Here every cut is
/// free: the slowest unit tries to move one, to drop it or to add one, and keeps what makes it
/// faster and fits the memory cap; then the unit that is the slowest goes on. Members of a group
/// that run sequences of their own also change their cuts at the same place together, since their
/// MicroPacks take turns. What the last backward hides of the gradients' reduction counts, too. It
/// ends when the slowest unit finds nothing more, or with `actions`: those of all schedules that
/// are tried. With more effort a unit that finds nothing more goes on from cuts that are a little
/// slower. Sequences keep their replicas and their order. Never a longer step. Deterministic
/// without a deadline. REQUIRES: the solution is the request's, its ranks have one stage each, and
/// its passes need not be cut alike.
void recut(const SearchRequest& request, std::int64_t actions, StepSolution& solution);

}  // namespace slimpack
