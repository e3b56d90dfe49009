// Measured here: the machine and the library that a profile's times hold for.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// Where this process measures. A GPU is told by its memory, because libtorch names none without a
/// vendor's headers. `root` stands for "/".
[[nodiscard]] MeasuredOn measured_here(c10::Device device, const std::filesystem::path& root = "/");

/// Throws InvalidInput if the costs of `file` were measured elsewhere or with another libtorch.
/// Accepts costs that nobody measured, such as those from hardware figures.
void require_measured_here(const Costs& cost, c10::Device device,
                           const std::filesystem::path& file);

}  // namespace slimpack
