// Counts what a program asks of libtorch: operators that a device would launch a kernel for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace slimpack {

/// By operator's name, how often the calling thread has launched it since it began.
using OperatorCounts = std::map<std::string, std::int64_t>;

/// From now on counts, on all threads, what is dispatched on tensors of the device. Of nested calls
/// the outermost counts that has a kernel of its own: not what is composed of other operators, and
/// nothing that a kernel calls. Views, allocations and what only looks at a tensor launch nothing.
/// One kernel of libtorch may be several of the device's (a product and its split sums, say).
void count_operators(at::Device device);

[[nodiscard]] const OperatorCounts& counts_of_thread();
[[nodiscard]] std::int64_t sum_of(const OperatorCounts& counts);

/// What `later` has beyond `earlier`, without zeros.
[[nodiscard]] OperatorCounts difference(const OperatorCounts& later, const OperatorCounts& earlier);

}  // namespace slimpack
