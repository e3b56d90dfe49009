// Counts what a program asks of libtorch: operators that a device would launch a kernel for, and
// the bytes that they read and write.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace slimpack {

struct OperatorUse {
  std::int64_t launches = 0;
  /// Every argument that the operator reads and every result, each once: what a kernel moves that
  /// keeps nothing in caches from one launch to the next. An operator that picks rows moves those
  /// rows alone.
  std::int64_t bytes = 0;

  bool operator==(const OperatorUse&) const = default;
};

/// Launches of the calling thread since it began, by operator's name.
using OperatorCounts = std::map<std::string, OperatorUse>;

/// From now on counts, on all threads, what is dispatched on tensors of the device. Among nested
/// calls the outermost one with a kernel of its own counts. Operators that are composed of others
/// do not count, nor does anything that a kernel calls. Views, allocations and what only looks at a
/// tensor launch nothing. One kernel of libtorch may be several of the device's (a product and its
/// split sums, say).
void count_operators(at::Device device);

[[nodiscard]] const OperatorCounts& counts_of_thread();
[[nodiscard]] std::int64_t launches_of(const OperatorCounts& counts);

/// The counts that `later` has beyond `earlier`, without zeros.
[[nodiscard]] OperatorCounts difference(const OperatorCounts& later, const OperatorCounts& earlier);

}  // namespace slimpack
