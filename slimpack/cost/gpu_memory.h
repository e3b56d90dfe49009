// A rank's GPU: what it holds beside the tensors that the memory model counts, and which kernels
// run.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/node_placement.h"
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

[[nodiscard]] GpuMemory gpu_memory(const HardwareSpec& hardware);

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
  [[nodiscard]] std::int64_t node_peers() const;
};

}  // namespace slimpack
