#include "slimpack/packflow/profile/measured_here.h"

#include <torch/headeronly/version.h>

#include <fstream>
#include <string>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/packflow/device/device_memory.h"

namespace slimpack {
namespace {

/// The name that Linux gives the first processor; "unknown" where it gives none.
std::string processor_name(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t name = line.find_first_not_of(" \t", line.find(':') + 1);
    if (name != std::string::npos) return line.substr(name);
  }
  return "unknown";
}

std::string text(const MeasuredOn& on) {
  return fmt::format("{} ({}, torch {})", on.processor, on.device, on.torch);
}

}  // namespace

MeasuredOn measured_here(c10::Device device, const std::filesystem::path& root) {
  const std::string kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return {.processor = processor_name(root),
          .device = device.is_cpu()
                        ? kind
                        : fmt::format("{} of {}", kind, human_bytes(device_memory(device))),
          .torch = TORCH_VERSION};
}

void require_measured_here(const Costs& cost, c10::Device device,
                           const std::filesystem::path& file) {
  if (!cost.origin.measured_on) return;
  const MeasuredOn here = measured_here(device);
  if (*cost.origin.measured_on == here) return;
  invalid_input(
      "{}: measured on {}, this is {}; measure here with 'slimpack profile', or leave cost.file "
      "out: training then measures by itself",
      file.string(), text(*cost.origin.measured_on), text(here));
}

}  // namespace slimpack
