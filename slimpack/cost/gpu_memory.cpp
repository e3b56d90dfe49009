#include "slimpack/cost/gpu_memory.h"

#include <algorithm>

namespace slimpack {

GpuMemory gpu_memory(const HardwareSpec& hardware) {
  return {hardware.multiprocessors,   hardware.context_bytes,   hardware.allocator_page_bytes,
          hardware.peer_buffer_bytes, hardware.flash_attention, hardware.fused_kernels};
}

std::int64_t GpuGroups::node_peers() const {
  const std::int64_t together = placement.replicas_together();
  std::int64_t peers = (placement.tensor - 1) + (together - 1);
  peers += placement.replicas_summed_in_node() - 1;
  for (std::int64_t group = 2; group <= most_merged; group *= 2)
    peers += std::min(group, together) - 1;
  // One stage before it and one after it.
  return peers + std::min(2, placement.stages_together() - 1);
}

}  // namespace slimpack
