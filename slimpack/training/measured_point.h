// Trains the points of a sweep.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/job/sweep_jobs.h"
#include "slimpack/training/plan_basis.h"

namespace slimpack {

/// Trains so many steps of the job on its dataset, from random weights, and writes nothing. The
/// figures are medians over the steps, each by itself, so that points that train the same documents
/// can be compared; the first step does not count. `on_step` is called after each step. A step that
/// does not fit makes a point that does not. Throws Interrupted once `should_stop`; InvalidInput
/// and RunFailed as TrainingRun. REQUIRES: at least two steps.
[[nodiscard]] SweepPoint measured_point(const SweepJob& job, const Costs& cost, std::int64_t steps,
                                        const std::function<void()>& on_step,
                                        const std::function<bool()>& should_stop);

/// Every figure's median. REQUIRES: measured figures, at least one.
[[nodiscard]] SweepFigures median_figures(const std::vector<SweepFigures>& steps);

}  // namespace slimpack
