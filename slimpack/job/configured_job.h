// What a run's configuration asks of the planner.
#pragma once

#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Without plan.memory_cap the cap is what the memory of a rank leaves. Throws InvalidInput when
/// the model's states alone do not fit, and when there would be no cap because the costs do not say
/// how much memory a rank has.
[[nodiscard]] Job configured_job(const RunConfig& config, const Costs& cost, StageLayout layout);

/// `most_merged` is as large as the configuration, the number of replicas and the costs allow.
[[nodiscard]] Choices configured_choices(const RunConfig& config, const Costs& cost);

/// What layers may compute again; layers of a stage may differ where the configuration says "auto",
/// which allows whatever `cost` knows the time of.
[[nodiscard]] std::vector<Recompute> allowed_recomputations(const RunConfig& config,
                                                            const Costs& cost);

/// The error that a step which does not fit ends with.
[[nodiscard]] InvalidInput refused(const RunConfig& config, const DoesNotFit& why);

}  // namespace slimpack
