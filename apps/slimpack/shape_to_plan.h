// The model that commands plan or measure the steps of.
#pragma once

#include "slimpack/spec/decoder_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The shape of planned_model(); a line on stderr names features that cannot be trained.
[[nodiscard]] DecoderShape shape_to_plan(const RunConfig& config);

/// The same of a model whose layers PackFlow can run and so measure; throws InvalidInput for
/// others.
[[nodiscard]] ModelShape shape_to_measure(const RunConfig& config);

}  // namespace slimpack
