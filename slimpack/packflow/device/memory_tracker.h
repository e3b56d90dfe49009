// Counts the bytes of CPU tensors by rank, to compare the memory model's predictions with, and
// tells the memory of a rank's tensors on the device that it computes on.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

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

/// On a CPU the bytes that are charged to the rank (memory_tracker.h). Other devices know no ranks:
/// there it is the memory of the whole process, rounded up by its allocator, so threads of one
/// process all see the sum.
class RankMemory {
 public:
  RankMemory(c10::Device device, std::int32_t tracked) : device_(device), tracked_(tracked) {}

  [[nodiscard]] Bytes live() const;
  /// The most since the last reset.
  [[nodiscard]] Bytes peak() const;
  void reset_peak() const;

 private:
  c10::Device device_;
  std::int32_t tracked_;
};

}  // namespace slimpack
