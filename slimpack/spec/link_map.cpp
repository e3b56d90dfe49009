#include "slimpack/spec/link_map.h"

#include <algorithm>

namespace slimpack {
namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMicro = 1e3;

}  // namespace

LinkMap link_map(const HardwareSpec& hardware) {
  const std::int32_t nics = std::min(hardware.nics_per_node, hardware.ranks_per_node);
  return {.ranks_per_node = hardware.ranks_per_node,
          .nics_per_node = nics,
          .node_latency = hardware.node_link_latency_us * kNanosPerMicro,
          .node_per_byte = kNanosPerSecond / hardware.node_link_bytes_per_second,
          .nic_latency = hardware.link_latency_us * kNanosPerMicro,
          .nic_per_byte =
              kNanosPerSecond / hardware.link_bytes_per_second * nics / hardware.ranks_per_node};
}

}  // namespace slimpack
