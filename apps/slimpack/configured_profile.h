// What a run configuration wants measured.
#pragma once

#include "slimpack/packflow/profile.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// For the configured ranks: as many threads at once as there are, in virtual time as run at once.
/// Where each of `several_processes` has a GPU of its own, only those of one stage. Throws
/// InvalidInput when there is no such device.
[[nodiscard]] ProfileOptions configured_profile(const RunConfig& config, const ModelShape& shape,
                                                bool several_processes = false);

}  // namespace slimpack
