#include "tests/packflow/pretended_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace slimpack::testing {
namespace {

std::atomic<std::int64_t> queues{0}, synchronized{0}, kept{0};

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
    return stream(++queues);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current, next.id()));
  }
  void synchronizeStream(const c10::Stream&) const override { ++synchronized; }

 private:
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, kPretended, id);
  }
};
thread_local c10::StreamId PretendedGuard::current = 0;
C10_REGISTER_GUARD_IMPL(PrivateUse1, PretendedGuard);

class PretendedAllocator final : public c10::DeviceAllocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    auto* const block = static_cast<std::size_t*>(std::aligned_alloc(64, (bytes / 64 + 2) * 64));
    *block = bytes;
    const std::int64_t now = live_ += static_cast<std::int64_t>(bytes);
    for (std::int64_t seen = peak_; now > seen && !peak_.compare_exchange_weak(seen, now);) {
    }
    return {reinterpret_cast<std::byte*>(block) + 64, block, &free_block, kPretended};
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
    stats.allocated_bytes[0].current = live_;
    stats.allocated_bytes[0].peak = peak_;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { peak_ = live_.load(); }

 private:
  static void free_block(void* block) {
    live_ -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
    std::free(block);
  }
  static std::atomic<std::int64_t> live_, peak_;
};
std::atomic<std::int64_t> PretendedAllocator::live_{0}, PretendedAllocator::peak_{0};

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

/// The same memory, as a tensor of the CPU.
at::Tensor seen_by_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  seen_by_cpu(to).copy_(seen_by_cpu(from));
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
  // As libtorch does for CUDA: numbers without dimension may come from the CPU.
  if (tensor.defined() && tensor.dim() > 0)
    TORCH_CHECK(tensor.device() == kPretended, op.schema().name(), " mixes devices");
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) require_here(op, value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) require_here(op, tensor);
  }
  at::native::cpu_fallback(op, stack);
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

PretendedCalls pretended_calls() {
  return {queues, synchronized, kept};
}

}  // namespace slimpack::testing
