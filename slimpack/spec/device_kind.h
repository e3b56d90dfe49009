// The kinds of devices that compute.
#pragma once

#include <cstdint>
#include <string_view>

namespace slimpack {

enum class DeviceKind : std::uint8_t {
  kCpu,
  kCuda,  ///< one GPU for each process
};

[[nodiscard]] constexpr std::string_view to_string(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

}  // namespace slimpack
