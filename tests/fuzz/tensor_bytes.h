// Tensors as the bytes of a safetensors file.
#pragma once

#include <vector>

#include "slimpack/packflow/checkpoint/safetensors.h"

namespace slimpack::fuzz {

inline std::vector<std::byte> bytes_of(const NamedTensors& tensors) {
  std::vector<std::byte> bytes;
  stream_safetensors(tensors, [&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  return bytes;
}

}  // namespace slimpack::fuzz
