// Baseline search: the best that the baselines do for a step, as a candidate of ours.
#pragma once

#include <optional>

#include "slimpack/base/units.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

struct BaselineSearchResult {
  std::optional<RatedPlan> step;  ///< with its prediction
  /// Without a step, where no solution had to be below a makespan: the least that any needs.
  std::optional<StageNeed> least_need;
};

/// The shortest of all baselines' steps that keeps the problem's cap and merges no more replicas
/// than the problem allows; none that is no shorter than `below`. With a
/// sequence longer than the job's context there is no baseline. The problem's granularity plays no
/// part. Deterministic.
///
/// Baselines whose bounds are no better than what there is are not made, ordered or simulated; so
/// the cost is mostly that of the bounds, O(sequences · stages).
[[nodiscard]] BaselineSearchResult search_baselines(const StepProblem& problem);

}  // namespace slimpack
