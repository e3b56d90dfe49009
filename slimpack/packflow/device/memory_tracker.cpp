#include "slimpack/packflow/device/memory_tracker.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

struct Counter {
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};

  void add(std::int64_t bytes) {
    const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
};

// libtorch has one CPU allocator per process, so its counters are of the process too. The last
// counter takes what no rank allocated.
std::array<Counter, kMaxTrackedRanks + 1>& counters() {
  static std::array<Counter, kMaxTrackedRanks + 1> all;
  return all;
}

thread_local std::int32_t current_rank = kMaxTrackedRanks;

/// Stands right before each block's data: libtorch wants a block's context to be its data pointer.
struct alignas(c10::gAlignment) Header {
  std::int64_t bytes;
  std::atomic<std::int32_t> rank;
};

Header* header_of(void* data) {
  return static_cast<Header*>(data) - 1;
}

void free_block(void* data) {
  Header* const header = header_of(data);
  counters()[static_cast<std::size_t>(header->rank.load())].add(-header->bytes);
  std::destroy_at(header);
  c10::free_cpu(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, at::Device(at::kCPU)};
    auto* const header = static_cast<Header*>(c10::alloc_cpu(sizeof(Header) + bytes));
    std::construct_at(header, static_cast<std::int64_t>(bytes), current_rank);
    counters()[static_cast<std::size_t>(current_rank)].add(header->bytes);
    return {header + 1, header + 1, &free_block, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

Counter& counter_of(std::int32_t rank) {
  SLIMPACK_CHECK(rank >= 0 && rank < kMaxTrackedRanks);
  return counters()[static_cast<std::size_t>(rank)];
}

}  // namespace

void install_memory_tracker() {
  // One arena without mmap: per-thread arenas cannot hold blocks above 32 MiB.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never: mallopt takes no more than 2 GiB
  ::mallopt(M_TOP_PAD, 256 << 20);
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

MemoryScope::MemoryScope(std::int32_t rank) : previous_(current_rank) {
  static_cast<void>(counter_of(rank));
  current_rank = rank;
}

MemoryScope::~MemoryScope() {
  current_rank = previous_;
}

std::int32_t tracked_rank() {
  return current_rank;
}

Bytes charge_to(const at::Tensor& tensor, std::int32_t rank) {
  SLIMPACK_CHECK(rank >= 0 && rank <= kMaxTrackedRanks);
  const at::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &free_block || data.get_context() == nullptr) return Bytes(0);
  Header* const header = header_of(data.get_context());
  counters()[static_cast<std::size_t>(rank)].add(header->bytes);
  const std::int32_t before = header->rank.exchange(rank);
  counters()[static_cast<std::size_t>(before)].add(-header->bytes);
  return Bytes(header->bytes);
}

Bytes live_bytes(std::int32_t rank) {
  return Bytes(counter_of(rank).live.load());
}
Bytes peak_bytes(std::int32_t rank) {
  return Bytes(counter_of(rank).peak.load());
}
void reset_peak(std::int32_t rank) {
  counter_of(rank).peak = counter_of(rank).live.load();
}

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
