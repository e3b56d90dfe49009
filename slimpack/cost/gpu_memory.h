// A rank's GPU: what it holds beside the tensors that the memory model counts, and which kernels
// run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// Figures of one GPU and of the libraries that use it (docs/hardware.md).
struct GpuMemory {
  std::int32_t multiprocessors = 0;
  Bytes context;         ///< CUDA's own, with all kernels loaded
  Bytes allocator_page;  ///< what libtorch's allocator leaves unfilled for each of its queues
  Bytes peer_buffers;    ///< NCCL's, for each rank of the node in each group
  std::int32_t flash_attention = kFirstFlashRelease;  ///< the release that runs
  bool fused_kernels = true;  ///< whether the build has them (packflow/fused)

  bool operator==(const GpuMemory&) const = default;
};

[[nodiscard]] inline GpuMemory gpu_memory(const HardwareSpec& hardware) {
  return {hardware.multiprocessors,   hardware.context_bytes,   hardware.allocator_page_bytes,
          hardware.peer_buffer_bytes, hardware.flash_attention, hardware.fused_kernels};
}

/// How many bytes of rows fit into so much pinned host memory. libtorch rounds each allocation up
/// to a power of two, so rows may take twice their size (ATen/core/CachingHostAllocator.h).
[[nodiscard]] constexpr Bytes pinnable(Bytes host) {
  return Bytes(host.count() / 2);
}

/// A job's groups, as far as their buffers depend on them.
struct GpuGroups {
  NodePlacement placement;
  std::int32_t most_merged = 1;  ///< replicas that run a MicroPack together, at most

  /// The ranks of its node that a rank receives from, counted once in each group: the stages beside
  /// it, the other tensor-parallel ranks, the other replicas and those that sum gradients with it
  /// first, and in groups of 2, 4, … replicas those that run a MicroPack with it. Of ranks with
  /// several answers, the most.
  [[nodiscard]] std::int64_t node_peers() const {
    const std::int64_t together = placement.replicas_together();
    std::int64_t peers = (placement.tensor - 1) + (together - 1);
    peers += placement.replicas_summed_in_node() - 1;
    for (std::int64_t group = 2; group <= most_merged; group *= 2)
      peers += std::min(group, together) - 1;
    // One stage before it and one after it.
    return peers + std::min(2, placement.stages_together() - 1);
  }
};

}  // namespace slimpack
