// The model that a run's configuration names.
#pragma once

#include "slimpack/spec/decoder_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// To train it. Throws InvalidInput for a model that cannot be trained, and for a context beyond
/// its positions.
[[nodiscard]] ModelShape trained_model(const RunConfig& config);

/// To plan its steps: also one with features that cannot be trained but whose cost is known, which
/// it names. Throws InvalidInput otherwise as trained_model.
[[nodiscard]] PlannableModel planned_model(const RunConfig& config);

}  // namespace slimpack
