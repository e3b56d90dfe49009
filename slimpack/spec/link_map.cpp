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

bool NodePlacement::holds(std::int64_t ranks) const {
  const std::int64_t all = std::int64_t{tensor} * stages * replicas;
  if (ranks_per_node == 0 || all <= ranks_per_node) return true;
  return ranks <= ranks_per_node && ranks_per_node % ranks == 0;
}

std::int32_t NodePlacement::stages_together() const {
  if (ranks_per_node == 0) return stages;
  return std::clamp(ranks_per_node / tensor, 1, stages);
}

std::int32_t NodePlacement::replicas_together() const {
  if (ranks_per_node == 0) return replicas;
  const std::int64_t each = std::int64_t{tensor} * stages;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(ranks_per_node / each, 1, replicas));
}

std::int32_t NodePlacement::replicas_summed_in_node() const {
  if (holds_replicas(replicas)) return 1;
  std::int32_t summed = 1;
  while (replicas % (2 * summed) == 0 && holds_replicas(2 * summed)) summed *= 2;
  return summed;
}

}  // namespace slimpack
