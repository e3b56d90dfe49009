// Why nothing fits, and what would.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/search.h"

namespace slimpack {

/// Fills in a refusal: `need` is the least memory that any plan of the step reached.
/// Cost: some ten plans of a single sequence for each halving of its length.
[[nodiscard]] DoesNotFit refusal(const PlanRequest& request, const SearchProblem& problem,
                                 const StageNeed& need);

/// The one plan of fixed packing. Throws InvalidInput when a sequence exceeds the context.
struct PackedTasks {
  PackPlan packs;
  Schedule schedule;
  TaskTimes times;
  TaskBytes bytes;
};
[[nodiscard]] PackedTasks packed_tasks(const SearchProblem& problem, Tokens context);

}  // namespace slimpack
