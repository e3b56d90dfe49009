// The model that commands plan or measure the steps of.
#pragma once

#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The shape of planned_model(); a line on stderr names features that cannot be trained.
[[nodiscard]] ModelShape shape_to_plan(const RunConfig& config);

}  // namespace slimpack
