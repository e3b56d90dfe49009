// Device memory: how much of it this process may fill.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "slimpack/base/units.h"

namespace slimpack {

/// What the machine says is available now, or the limit of the process's control group (of either
/// version) or of one around it, whichever is least; 0 where the system does not say. `root` is the
/// folder that stands for "/".
[[nodiscard]] Bytes available_memory(const std::filesystem::path& root = "/");

/// On a CPU available_memory(), else all of the device's. Ranks that share the device share it.
[[nodiscard]] Bytes device_memory(c10::Device device);

}  // namespace slimpack
