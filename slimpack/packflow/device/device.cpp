#include "slimpack/packflow/device/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

#include "slimpack/base/error.h"

namespace slimpack {

void set_cuda_defaults() {
  // The name without CUDA is libtorch's newer one, which it prefers.
  if (std::getenv("PYTORCH_ALLOC_CONF") == nullptr)
    ::setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", /*overwrite=*/0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

bool has_cuda_device() {
  set_cuda_defaults();  // which asking for a GPU may read
  return c10::impl::hasDeviceGuardImpl(at::kCUDA) && device_count(at::kCUDA) > 0;
}

std::int64_t device_count(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).deviceCount();
}

at::Device find_device(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return at::Device(at::kCPU);
  if (!has_cuda_device())
    invalid_input(
        "train.device is cuda, but libtorch finds no CUDA device here; set it to cpu, or install a "
        "build of PyTorch with CUDA and check nvidia-smi");
  return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice();
}

void set_deterministic(at::Device device, bool deterministic) {
  if (device.is_cpu()) return;
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  if (!deterministic) return;
  // cuBLAS reads this when it is first used; without it libtorch refuses matrix products here.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  // Every tensor is written before it is read; filling it first would only take time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

void use_own_queue(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.setDevice(device);
  guard.exchangeStream(guard.getStreamFromGlobalPool(device));
}

c10::Stream own_queue(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream copy_queue(at::Device device) {
  // Queues of high priority are handed out apart from the others, in turn.
  return c10::impl::VirtualGuardImpl(device.type())
      .getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

void finish_queue(at::Device device) {
  if (device.is_cpu()) return;
  const c10::Stream queue = own_queue(device);
  if (!queue.query()) queue.synchronize();
}

void keep_for_queue(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_cpu()) tensor.record_stream(own_queue(tensor.device()));
}

}  // namespace slimpack
