#include "slimpack/cost/gpu_memory.h"

#include <algorithm>

namespace slimpack {

GpuMemory gpu_memory(const HardwareSpec& hardware) {
  return {hardware.multiprocessors, hardware.context_bytes, hardware.allocator_page_bytes,
          hardware.peer_buffer_bytes};
}

std::int64_t GpuGroups::node_peers() const {
  const std::int64_t node = replicas_per_node == 0 ? replicas : replicas_per_node;
  const std::int64_t together = std::min<std::int64_t>(replicas, node);
  std::int64_t peers = (tensor - 1) + (together - 1);
  for (std::int64_t group = 2; group <= most_merged; group *= 2)
    peers += std::min(group, together) - 1;
  // One stage before it and one after it.
  const bool one_node = replicas_per_node == 0 || std::int64_t{stages} * replicas <= node;
  if (one_node) peers += std::min(2, stages - 1);
  return peers;
}

}  // namespace slimpack
