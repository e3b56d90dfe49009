// Memory of a rank's tensors on the device that it computes on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "slimpack/base/units.h"

namespace slimpack {

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
