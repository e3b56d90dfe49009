// Where a run's cost model comes from, as its configuration says.
#pragma once

#include <optional>
#include <string_view>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// From cost.file, else from [hardware], else nullopt: then somebody has to measure. Throws
/// InvalidInput for a cost file of another model or number format.
[[nodiscard]] std::optional<CostModel> configured_cost(const RunConfig& config,
                                                       const ModelShape& shape);

/// The same, for commands that do not measure: throws InvalidInput naming `origin`, the run
/// configuration, when it says nothing of costs.
[[nodiscard]] CostModel required_cost(const RunConfig& config, const ModelShape& shape,
                                      std::string_view origin);

}  // namespace slimpack
