// Devices: where a rank's tensors lie, the queue of its work there, and how much memory of it this
// process may fill.
//
// Written against libtorch's device-neutral interfaces (c10::Stream, DeviceGuardImplInterface), so
// that it needs no headers of a vendor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <filesystem>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Settings of the process for CUDA, which reads them when it is first used. None replaces what the
/// user has set.
///  - PYTORCH_CUDA_ALLOC_CONF: the allocator's segments grow, so that MicroPacks of many sizes
///  leave
///    few gaps.
///  - CUDA_MODULE_LOADING: all kernels are loaded at the beginning. The first use of a kernel would
///    else wait for all work on the device, where a message may wait for that use.
///  - CUDA_DEVICE_MAX_CONNECTIONS: work of up to 32 streams has queues of its own on the GPU. A
///  rank
///    has a stream for each of its groups; with eight queues one waits behind another's.
void set_cuda_defaults();

/// The calling thread's device of that kind: the one that was chosen for its process, else the
/// first. For CUDA it calls set_cuda_defaults(). Throws InvalidInput when there is none.
[[nodiscard]] at::Device find_device(DeviceKind kind);
[[nodiscard]] bool has_cuda_device();
/// Devices of this kind in the machine. REQUIRES: no CPU.
[[nodiscard]] std::int64_t device_count(at::Device device);

/// Whether libtorch computes the same bits in every run, from now on and in the whole process. On a
/// GPU that costs time: FlashAttention-2 leaves multiprocessors idle in its backward. REQUIRES: for
/// the same bits called before the first matrix product on the device, when libtorch reads how much
/// room these may take. Does nothing on a CPU.
void set_deterministic(at::Device device, bool deterministic);

/// Gives the calling thread a queue of its own for its work on the device. A CPU has no queue: its
/// work is done when a call returns.
void use_own_queue(at::Device device);

/// The queue that the calling thread's work on the device goes through. REQUIRES: no CPU.
[[nodiscard]] c10::Stream own_queue(at::Device device);
/// A queue for copies beside it; none that any thread has as its own. REQUIRES: no CPU.
[[nodiscard]] c10::Stream copy_queue(at::Device device);

/// Waits until the calling thread's work on the device is done; does not wait for an empty queue.
void finish_queue(at::Device device);

/// Keeps the memory of a tensor from another thread until the calling thread's queue is done with
/// it, even if the tensor is freed before.
void keep_for_queue(const at::Tensor& tensor);

/// The least of what the machine has available now and the limits of the process's control group
/// and of those around it (of either version); 0 if the system does not say. `root` stands for "/".
[[nodiscard]] Bytes available_memory(const std::filesystem::path& root = "/");

/// available_memory() on a CPU, else all memory of the device. Ranks on one device share it.
[[nodiscard]] Bytes device_memory(c10::Device device);

}  // namespace slimpack
