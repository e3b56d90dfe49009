// A pretended device: libtorch's slot for devices outside its tree, in memory of the CPU, for tests
// of what must not depend on the device.
//
// It is as strict as a GPU: tensors of one operator must lie on one device, only copies cross,
// copies that nobody waits for have not happened (pretended_queues.h), and queues must not race
// (pretended_order.h). Operators run on the CPU
// behind it. Streams are numbers; allocations are counted, those of pinned host memory too. Linking
// pretended_device.cpp registers it, for the whole program.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace slimpack::testing {

inline const c10::Device kPretended{c10::DeviceType::PrivateUse1, 0};
inline constexpr std::size_t kPretendedMemory = 24'000'000'000;

/// Requests to the device since the program began.
struct PretendedCalls {
  std::int64_t queues = 0;        ///< streams that were taken from the pool
  std::int64_t synchronized = 0;  ///< waits of the host for a stream or an event
  std::int64_t kept = 0;          ///< tensors whose memory was kept for a stream
};
[[nodiscard]] PretendedCalls pretended_calls();

/// Requests of the calling thread to the device since the thread began.
struct ThreadCalls {
  std::int64_t allocations = 0;
  std::int64_t asked = 0;         ///< questions whether an event was reached
  std::int64_t copies_there = 0;  ///< from the host's memory to the device's
  /// Times that the host waited for the device: for a stream, an event, a copy that does not go on
  /// by itself, or a number.
  std::int64_t waits = 0;
};
[[nodiscard]] ThreadCalls pretended_calls_of_thread();

/// A tensor of the CPU in the same memory.
[[nodiscard]] at::Tensor seen_by_cpu(const at::Tensor& tensor);

/// While it lives, the device is that of a build without nvcc: libtorch's operators take the place
/// of fused kernels. REQUIRES: one at a time, and no rank runs when it comes or goes.
class WithoutFusedKernels {
 public:
  WithoutFusedKernels();
  ~WithoutFusedKernels();
  WithoutFusedKernels(const WithoutFusedKernels&) = delete;
  WithoutFusedKernels& operator=(const WithoutFusedKernels&) = delete;
};

/// Pinned host memory. Where there is a GPU libtorch takes that from its driver, and these stay 0.
struct PinnedBytes {
  std::int64_t live = 0;
  std::int64_t peak = 0;  ///< since the program began, or the last reset
};
[[nodiscard]] PinnedBytes pinned_bytes();
void reset_pinned_peak();

}  // namespace slimpack::testing
