// Bytes as tensors: what is no tensor travels between ranks as one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace slimpack {

/// A copy.
[[nodiscard]] at::Tensor byte_tensor(std::span<const std::byte> bytes);

}  // namespace slimpack
