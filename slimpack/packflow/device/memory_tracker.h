// Counts the bytes of CPU tensors by rank, to compare the memory model's predictions with.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "slimpack/base/units.h"

namespace slimpack {

inline constexpr std::int32_t kMaxTrackedRanks = 64;

/// Puts a counting allocator before libtorch's CPU allocator and tells malloc to keep freed memory
/// (large tensors otherwise pay page faults at every allocation). The hook is libtorch's, and of
/// the whole process. REQUIRES: called first thing in main, before any tensor exists.
void install_memory_tracker();

/// While alive, tensors that this thread allocates are charged to `rank`.
class MemoryScope {
 public:
  explicit MemoryScope(std::int32_t rank);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  std::int32_t previous_;
};

/// The rank that this thread's tensors are charged to; kMaxTrackedRanks outside any scope.
[[nodiscard]] std::int32_t tracked_rank();

/// Charges the tensor's storage to another rank from now on, because it was handed over.
/// kMaxTrackedRanks = nobody. Returns its bytes; 0 when the tracker does not count it.
Bytes charge_to(const at::Tensor& tensor, std::int32_t rank);

/// Bytes alive now, and the highest number since the last reset_peak of that rank. 0 when the
/// tracker is not installed. Sizes are those asked for, without the allocator's rounding.
[[nodiscard]] Bytes live_bytes(std::int32_t rank);
[[nodiscard]] Bytes peak_bytes(std::int32_t rank);
void reset_peak(std::int32_t rank);

}  // namespace slimpack
