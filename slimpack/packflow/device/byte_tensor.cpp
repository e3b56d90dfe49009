#include "slimpack/packflow/device/byte_tensor.h"

#include <ATen/ops/empty.h>

#include <cstring>

namespace slimpack {

at::Tensor byte_tensor(std::span<const std::byte> bytes) {
  at::Tensor bytes_B = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(bytes_B.mutable_data_ptr(), bytes.data(), bytes.size());
  return bytes_B;
}

}  // namespace slimpack
