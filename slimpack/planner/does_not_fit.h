// Why nothing fits, and what would.
#pragma once

#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

/// A step that does not fit, with the recomputation that needs the least memory. Keeps references.
struct Refused {
  const Job& job;
  const SequenceLengths& lengths;
  const Choices& choices;
  const Costs& cost;
  const RecomputeByLayer& recompute;
};

/// `need`: the least memory of any plan of the step. Finds the longest sequence that would fit by
/// bisection. Cost: a search for the step of one sequence at each bisection.
[[nodiscard]] DoesNotFit refusal(const Refused& refused, const RankNeed& need);

}  // namespace slimpack
