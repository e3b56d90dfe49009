// The first use of a stage's kernels, before its first step.
#pragma once

#include <span>

#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/step/engine_options.h"

namespace slimpack {

/// Runs one small MicroPack forward and backward through each of a rank's stages, without other
/// ranks, and waits for the device. A kernel's first use may wait for all work on the device, where
/// in a step a message may wait for that use; libraries choose and load kernels then
/// (device/device.h). Afterwards gradients are zero. Changes no parameter and draws no random
/// number. REQUIRES: no CPU.
void warm_up(const EngineOptions& options, const RankPlace& place,
             std::span<StageParameters> parameters, const Rope& rope);

}  // namespace slimpack
