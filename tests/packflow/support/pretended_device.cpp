#include "tests/packflow/support/pretended_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/packflow/support/pretended_order.h"
#include "tests/packflow/support/pretended_queues.h"

namespace slimpack::testing {
namespace {

std::atomic<std::int64_t> queue_count{0}, synchronized{0}, kept{0};
thread_local ThreadCalls of_thread;
/// While the CPU computes in the device's place, copies between them are none of the program's.
thread_local bool standing_in = false;

struct PretendedGuard final : c10::impl::DeviceGuardImplInterface {
  static thread_local c10::StreamId current;

  [[nodiscard]] c10::DeviceType type() const override { return kPretended.type(); }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device) const override { return kPretended; }
  [[nodiscard]] c10::Device getDevice() const override { return kPretended; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  [[nodiscard]] c10::Stream getStream(c10::Device) const override { return stream(current); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream(++queue_count);
  }
  /// Whoever asks gives work to the queue that no operator shows: what was put off before is done.
  [[nodiscard]] void* getStreamNativeHandle(const c10::Stream queue) const override {
    run_now(queue.id());
    return reinterpret_cast<void*>(queue.id());
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current, next.id()));
  }
  [[nodiscard]] bool queryStream(const c10::Stream& queue) const override {
    return known_reached(end_of(queue.id()));
  }
  void synchronizeStream(const c10::Stream& queue) const override {
    let_host_wait(end_of(queue.id()));
  }
  void record(void** event, const c10::Stream& queue, c10::DeviceIndex,
              c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new QueueMark;
    *static_cast<QueueMark*>(*event) =
        flag == c10::EventFlag::BACKEND_DEFAULT ? timed_end_of(queue.id()) : end_of(queue.id());
  }
  [[nodiscard]] bool queryEvent(void* event) const override {
    ++of_thread.asked;
    return known_reached(*static_cast<QueueMark*>(event));
  }
  void synchronizeEvent(void* event) const override {
    let_host_wait(*static_cast<QueueMark*>(event));
  }
  [[nodiscard]] double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    const Nanos time =
        static_cast<QueueMark*>(to)->time->value() - static_cast<QueueMark*>(from)->time->value();
    return static_cast<double>(time.count()) / 1e6;
  }
  /// Whatever waits runs later than this call returns: the last moment for what it waits for.
  void block(void* event, const c10::Stream& queue) const override {
    if (event != nullptr) let_wait(queue.id(), *static_cast<QueueMark*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<QueueMark*>(event);
  }

 private:
  static void let_host_wait(const QueueMark& mark) {
    ++synchronized;
    ++of_thread.waits;
    host_waits_for(mark);
  }
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, kPretended, id);
  }
};
thread_local c10::StreamId PretendedGuard::current = 0;
C10_REGISTER_GUARD_IMPL(PrivateUse1, PretendedGuard);

/// Allocations with their sum and its peak.
class CountedBytes {
 public:
  /// Allocates bytes that nobody has written: they are not numbers.
  at::DataPtr allocate(std::size_t bytes, c10::DeleterFnPtr free, c10::Device device) {
    auto* const block = static_cast<std::size_t*>(std::aligned_alloc(64, (bytes / 64 + 2) * 64));
    *block = bytes;
    std::byte* const data = reinterpret_cast<std::byte*>(block) + 64;
    std::memset(data, 0xff, bytes);
    const std::int64_t now = live += static_cast<std::int64_t>(bytes);
    for (std::int64_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) {
    }
    return {data, block, free, device};
  }
  void free(void* block) {
    live -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
    std::free(block);
  }
  void reset_peak() { peak = live.load(); }

  std::atomic<std::int64_t> live{0}, peak{0};
};
CountedBytes on_device, pinned;

class PretendedAllocator final : public c10::DeviceAllocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    ++of_thread.allocations;
    at::DataPtr memory = on_device.allocate(
        bytes, [](void* block) { on_device.free(block); }, kPretended);
    note_allocation(PretendedGuard::current, memory.get());
    return memory;
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = on_device.live;
    stats.allocated_bytes[0].peak = on_device.peak;
    return stats;
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {kPretendedMemory / 2, kPretendedMemory};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { on_device.reset_peak(); }
};

class PinnedAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    return pinned.allocate(
        bytes, [](void* block) { pinned.free(block); }, c10::Device(at::kCPU));
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

struct PretendedHooks final : at::PrivateUse1HooksInterface {
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
};
[[maybe_unused]] const bool hooked = [] {
  static PretendedHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("pretended");
  return true;
}();

PretendedAllocator allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator);

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys,
                                           c10::dtype_or_default(type));
}

/// A tensor of the CPU in the same memory.
at::Tensor memory_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

c10::StreamId own_stream() {
  return PretendedGuard().getStream(kPretended).id();
}

/// The host waits until the calling thread's queue is done.
void finish_own_queue() {
  ++of_thread.waits;
  host_waits_for(end_of(own_stream()));
}

/// Before the queue gets work that computes: it keeps its order, so the copies before are done.
void run_own_queue() {
  run_now(own_stream());
}

/// Whether memory of the device is still somebody's; the host's libtorch keeps until it is copied.
std::function<bool()> still_there(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return [] { return true; };
  return [weak = tensor.storage().getWeakStorageImpl()] { return !weak.expired(); };
}

/// A copy for the end of the own queue. Memory of this queue may be given up before it is written:
/// whatever uses it again comes later.
std::function<void()> later(const std::function<void()>& copy, const at::Tensor& from,
                            const at::Tensor& to) {
  const bool own = !to.is_cpu() && owner_of(to) == own_stream();
  return [copy, own, has_source = still_there(from), has_target = still_there(to)] {
    if (own && !has_target()) return;
    TORCH_CHECK(has_source() && has_target(), "memory was given up before it was copied");
    copy();
  };
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto copy = [source = memory_of(from), target = memory_of(to)] {
    at::Tensor(target).copy_(source);
  };
  if (non_blocking)
    put_off(own_stream(), later(copy, from, to));
  else
    run_own_queue();
  if (!standing_in) {
    if (from.is_cpu() && !to.is_cpu()) ++of_thread.copies_there;
    note_access(own_stream(), from, Access::kRead);
    note_access(own_stream(), to, Access::kWrite);
  }
  if (non_blocking) return to;
  copy();
  if (!standing_in && from.device() != to.device()) finish_own_queue();
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

void record_stream(at::Tensor&, c10::Stream) {
  ++kept;
}

void require_here(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  // Numbers without dimension may come from the CPU, which libtorch allows for CUDA, too.
  if (tensor.defined() && tensor.dim() > 0)
    TORCH_CHECK(tensor.device() == kPretended, op.schema().name(), " mixes devices");
}

void note_accesses(const c10::IValue& value, Access access) {
  if (value.isTensor()) note_access(own_stream(), value.toTensor(), access);
  if (!value.isTensorList()) return;
  for (const at::Tensor& tensor : value.toTensorVector()) note_access(own_stream(), tensor, access);
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) require_here(op, value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) require_here(op, tensor);
  }
  run_own_queue();
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    note_accesses(torch::jit::peek(*stack, i, arguments.size()),
                  alias != nullptr && alias->isWrite() ? Access::kWrite : Access::kRead);
  }
  standing_in = true;
  at::native::cpu_fallback(op, stack);
  standing_in = false;
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().returns().size()))
    note_accesses(value, Access::kWrite);
  // A number reaches the host when all before it is done.
  if (op.schema().name() == "aten::_local_scalar_dense") finish_own_queue();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("record_stream", record_stream);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", at::native::resize_);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

}  // namespace

at::Tensor seen_by_cpu(const at::Tensor& tensor) {
  run_own_queue();
  return memory_of(tensor);
}

PretendedCalls pretended_calls() {
  return {queue_count, synchronized, kept};
}

ThreadCalls pretended_calls_of_thread() {
  return of_thread;
}

PinnedBytes pinned_bytes() {
  return {pinned.live, pinned.peak};
}

void reset_pinned_peak() {
  pinned.reset_peak();
}

}  // namespace slimpack::testing
