// Chosen layout: the layers and stages of each rank, as a run configures them.
#pragma once

#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Balanced for these lengths, with parallel.stages_per_rank stages on each rank; where the planner
/// chooses, one layout for each number that it tries: 1, 2, 4 and 8, as far as the layers go.
[[nodiscard]] std::vector<StageLayout> layouts_to_try(const RunConfig& config, const Costs& cost,
                                                      const SequenceLengths& lengths);

/// The layout of layouts_to_try whose step is the shortest. The first where none fits.
/// Cost: plans the step for each, if there are several.
[[nodiscard]] StageLayout chosen_layout(const RunConfig& config, const Costs& cost,
                                        const SequenceLengths& lengths, const Choices& choices);

}  // namespace slimpack
