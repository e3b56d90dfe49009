#include "slimpack/packflow/device/tensor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace slimpack {

at::ScalarType accumulate_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor joined_rows(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

at::Tensor empty_rows(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, tensor.options());
}

at::Tensor put_on(const at::Tensor& host, at::Device device) {
  return device.is_cpu() ? host : host.pin_memory().to(device, host.scalar_type(), true);
}

void put_on(std::span<at::Tensor* const> tensors, at::Device device) {
  if (device.is_cpu() || tensors.empty()) return;
  constexpr std::int64_t kAlignment = 16;  // of a GPU's widest loads
  struct Place {
    at::Tensor host;
    std::int64_t begin = 0;  // in bytes
  };
  std::map<const at::TensorImpl*, Place> places;  // by the host's tensor
  std::int64_t bytes = 0;
  for (const at::Tensor* tensor : tensors) {
    const auto [it, added] = places.try_emplace(tensor->unsafeGetTensorImpl());
    if (!added) continue;
    it->second = {tensor->contiguous(), bytes};
    bytes +=
        (static_cast<std::int64_t>(tensor->nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
  }
  const at::Tensor pinned_B = at::empty({bytes}, at::dtype(at::kByte).pinned_memory(true));
  auto* const to = static_cast<std::byte*>(pinned_B.mutable_data_ptr());
  for (const auto& [tensor, place] : places)
    std::copy_n(static_cast<const std::byte*>(place.host.const_data_ptr()), place.host.nbytes(),
                to + place.begin);
  const at::Tensor there_B = pinned_B.to(device, at::kByte, /*non_blocking=*/true);
  for (at::Tensor* tensor : tensors) {
    const Place& place = places.at(tensor->unsafeGetTensorImpl());
    *tensor = there_B.narrow(0, place.begin, static_cast<std::int64_t>(place.host.nbytes()))
                  .view(place.host.scalar_type())
                  .view(place.host.sizes());
  }
}

at::Tensor byte_tensor(std::span<const std::byte> bytes) {
  at::Tensor bytes_B = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, static_cast<std::byte*>(bytes_B.mutable_data_ptr()));
  return bytes_B;
}

}  // namespace slimpack
