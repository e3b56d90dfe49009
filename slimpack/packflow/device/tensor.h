// Tensors of the runtime: number formats, and the letters that tensor names end in.
//
//   T rows (tokens) of a MicroPack or slice   L tokens of a sequence    H hidden size
//   N query heads   G key/value heads         D head dimension         F FFN width   V vocabulary
//   Q = N·D, K = G·D                          O, I: rows and columns of a weight matrix
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/spec/dtype.h"

namespace slimpack {

[[nodiscard]] constexpr at::ScalarType compute_type(Dtype dtype) {
  return dtype == Dtype::kFp64 ? at::kDouble : dtype == Dtype::kFp32 ? at::kFloat : at::kBFloat16;
}

/// The type of sums: gradients, dK/dV, log-sum-exp, norms, the loss.
[[nodiscard]] constexpr at::ScalarType accumulate_type(Dtype dtype) {
  return dtype == Dtype::kFp64 ? at::kDouble : at::kFloat;
}
[[nodiscard]] at::ScalarType accumulate_type(const at::Tensor& tensor);

/// The tensors one below the other; a single tensor is not copied. REQUIRES: at least one.
[[nodiscard]] at::Tensor joined_rows(const std::vector<at::Tensor>& parts);

/// An uninitialised tensor like `tensor`, with another number of rows.
[[nodiscard]] at::Tensor empty_rows(const at::Tensor& tensor, std::int64_t rows);

/// A host's tensor on a device; on a CPU the tensor itself. The host does not wait for the copy,
/// which reads pinned memory.
[[nodiscard]] at::Tensor put_on(const at::Tensor& host, at::Device device);

/// put_on of many tensors with one copy: they become views of one block on the device. A tensor
/// that is listed several times stays one. On a CPU all stay as they are.
void put_on(std::span<at::Tensor* const> tensors, at::Device device);

/// The bytes as a tensor (uint8), which travels between ranks as others do. A copy.
[[nodiscard]] at::Tensor byte_tensor(std::span<const std::byte> bytes);

}  // namespace slimpack
