// What a run's configuration asks of the planner.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// `most_merged` is as large as the configuration, the number of replicas and the cost model allow.
[[nodiscard]] PlanRequest configured_request(const RunConfig& config, const CostModel& cost,
                                             SequenceLengths lengths);

}  // namespace slimpack
