// Devices: where a rank's tensors lie, and the queue of its work there.
//
// Written against libtorch's device-neutral interfaces (c10::Stream, DeviceGuardImplInterface), so
// that it needs no headers of a vendor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The device of that kind that the calling thread works on: in a process of a job the one that was
/// chosen for it, else the first. Throws InvalidInput when there is none.
[[nodiscard]] at::Device find_device(DeviceKind kind);

/// Tells libtorch to compute the same bits in every run. For the whole process; before its first
/// matrix product on the device, when libtorch looks for the setting once. Nothing to do on a CPU.
void require_same_bits(at::Device device);

/// The calling thread's work on the device goes through a queue of its own from now on, beside
/// those of other threads. A CPU has no queue: its work is done when a call returns.
void use_own_queue(at::Device device);

/// The queue that the calling thread's work on the device goes through. REQUIRES: no CPU.
[[nodiscard]] c10::Stream own_queue(at::Device device);
/// A queue for copies beside it; none that any thread has as its own. REQUIRES: no CPU.
[[nodiscard]] c10::Stream copy_queue(at::Device device);

/// Waits until the calling thread's work on the device is done.
void finish_queue(at::Device device);

/// What has come from another thread may be given up before the calling thread's queue is done with
/// it: its memory is not used again until then.
void keep_for_queue(const at::Tensor& tensor);

}  // namespace slimpack
