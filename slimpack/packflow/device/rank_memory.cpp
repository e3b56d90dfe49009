#include "slimpack/packflow/device/rank_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "slimpack/packflow/device/memory_tracker.h"

namespace slimpack {
namespace {

c10::DeviceAllocator& allocator_of(c10::Device device) {
  return *c10::getDeviceAllocator(device.type());
}

auto allocated_bytes(c10::Device device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return allocator_of(device).getDeviceStats(device.index()).allocated_bytes[kAll];
}

}  // namespace

Bytes RankMemory::live() const {
  return device_.is_cpu() ? live_bytes(tracked_) : Bytes(allocated_bytes(device_).current);
}

Bytes RankMemory::peak() const {
  return device_.is_cpu() ? peak_bytes(tracked_) : Bytes(allocated_bytes(device_).peak);
}

void RankMemory::reset_peak() const {
  if (device_.is_cpu())
    slimpack::reset_peak(tracked_);
  else
    allocator_of(device_).resetPeakStats(device_.index());
}

}  // namespace slimpack
