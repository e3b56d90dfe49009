// Turns a run's configuration into the planner's job and choices.
#pragma once

#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The configured job. Without plan.memory_cap the cap is a rank's memory less weights, gradients
/// and optimizer. Throws JobDoesNotFit if these alone do not fit (states_fit), and InvalidInput
/// if the costs do not say how much memory a rank has.
[[nodiscard]] Job configured_job(const RunConfig& config, const Costs& cost, StageLayout layout);

/// Whether weights, gradients and optimizer leave memory for activations. True also where that is
/// not known, and where plan.memory_cap is given.
[[nodiscard]] bool states_fit(const RunConfig& config, const Costs& cost,
                              const StageLayout& layout);

/// The configured choices. `most_merged` is configured_merging's.
[[nodiscard]] Choices configured_choices(const RunConfig& config, const Costs& cost);

/// The recomputations that layers may have: the configured one, or with "auto" every one whose time
/// `cost` knows. Only with "auto" may the layers of a stage differ. Where none is set, layers under
/// autograd have "auto".
[[nodiscard]] std::vector<Recompute> allowed_recomputations(const RunConfig& config,
                                                            const Costs& cost);

/// The error for a step that does not fit.
[[nodiscard]] JobDoesNotFit refused(const RunConfig& config, const DoesNotFit& why);

}  // namespace slimpack
