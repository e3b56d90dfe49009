#include "slimpack/packflow/device/tensor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstring>

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

at::Tensor byte_tensor(std::span<const std::byte> bytes) {
  at::Tensor bytes_B = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(bytes_B.mutable_data_ptr(), bytes.data(), bytes.size());
  return bytes_B;
}

}  // namespace slimpack
