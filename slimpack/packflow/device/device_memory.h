// Device memory: how much of it this process may fill.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

#include "slimpack/base/units.h"

namespace slimpack {

/// The least of what the machine has available now and the limits of the process's control group
/// and of those around it (of either version); 0 if the system does not say. `root` stands for "/".
[[nodiscard]] Bytes available_memory(const std::filesystem::path& root = "/");

/// available_memory() on a CPU, else all memory of the device. Ranks on one device share it.
[[nodiscard]] Bytes device_memory(c10::Device device);

}  // namespace slimpack
