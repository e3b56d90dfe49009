// Reads the model whose steps commands plan or measure.
#pragma once

#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The shape of planned_model(). Writes a line to stderr if the model has features that cannot be
/// trained.
[[nodiscard]] ModelShape shape_to_plan(const RunConfig& config);

}  // namespace slimpack
