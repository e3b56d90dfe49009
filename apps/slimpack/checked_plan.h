// A plan that is about to run: made, and checked by what shares no code with its maker.
#pragma once

#include <string>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Throws InvalidInput when nothing fits. The job and the choices are those of `config`.
[[nodiscard]] RatedPlan checked_plan(const RunConfig& config, const Job& job,
                                     const SequenceLengths& lengths, const Choices& choices,
                                     const Costs& cost);

/// Of everything that ranks run together: plan and schedules.
[[nodiscard]] std::string checksum_of_plan(const RatedPlan& planned);

}  // namespace slimpack
