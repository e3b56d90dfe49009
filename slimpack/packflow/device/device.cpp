#include "slimpack/packflow/device/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

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

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// /proc/meminfo: "MemAvailable:   21498112 kB".
std::int64_t machine_available(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string word;
  while (file >> word) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return kUnknown;
}

/// The number in a file of one; none where it is "max".
std::int64_t limit_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t bytes = 0;
  return in >> bytes ? bytes : kUnknown;
}

/// The least limit of the group and of the groups around it, up to the folder where groups are
/// mounted. In bytes; kUnknown where a file names none.
std::int64_t least_limit(const fs::path& mount, fs::path group, const char* file) {
  std::int64_t least = limit_in(mount / file);
  for (; group.has_filename(); group = group.parent_path())
    least = std::min(least, limit_in(mount / group / file));
  return least;
}

/// /proc/self/cgroup has a line "id:controllers:/group" for each tree of groups; version 2 is one
/// tree, without controllers.
std::int64_t group_limit(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::int64_t least = kUnknown;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers =
        fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    const fs::path group = fs::path(line.substr(second + 1)).relative_path();
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,")
      least = std::min(least, least_limit(mount, group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(mount / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace

Bytes available_memory(const fs::path& root) {
  const std::int64_t bytes = std::min(machine_available(root), group_limit(root));
  return Bytes(bytes == kUnknown ? 0 : bytes);
}

Bytes device_memory(c10::Device device) {
  if (device.is_cpu()) return available_memory();
  const auto [free, all] =
      c10::getDeviceAllocator(device.type())->getMemoryInfo(std::max<int>(0, device.index()));
  return Bytes(static_cast<std::int64_t>(all));
}

}  // namespace slimpack
