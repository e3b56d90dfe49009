// Baseline search: the best step of all baselines, as a candidate of ours.
#pragma once

#include <optional>

#include "slimpack/base/units.h"
#include "slimpack/planner/planner.h"
#include "slimpack/planner/step_problem.h"

namespace slimpack {

struct BaselineSearchResult {
  std::optional<RatedPlan> step;  ///< with its prediction
  /// Set only without a step, where the problem has no `below`: the least that any baseline needs.
  std::optional<StageNeed> least_need;
};

/// The shortest step of a baseline that keeps the problem's cap, merges no more replicas than the
/// problem allows and is shorter than `below`. There is none where a sequence is longer than the
/// job's context. The problem's granularity is not used. Deterministic.
///
/// Baselines whose bounds are no better than the best step so far are not made, ordered or
/// simulated. So the bounds cost most: O(sequences · stages).
[[nodiscard]] BaselineSearchResult search_baselines(const StepProblem& problem);

}  // namespace slimpack
