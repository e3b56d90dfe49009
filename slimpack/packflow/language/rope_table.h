// cos and sin of positions, grown as sequences grow.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

class RopeTable {
 public:
  RopeTable(const Decoder& shape, Dtype dtype, at::Device device);

  /// Makes room for positions [0, positions).
  void reserve(std::int64_t positions);

  /// [positions, D/2], on the CPU in the accumulate type.
  [[nodiscard]] const at::Tensor& cos_LD() const { return cos_LD_; }
  [[nodiscard]] const at::Tensor& sin_LD() const { return sin_LD_; }

  /// cos and sin of rows at these positions, in the compute type on the device.
  [[nodiscard]] RopeRows rows(std::span<const std::int64_t> positions) const;

 private:
  RopeFrequencies frequencies_;
  at::TensorOptions rows_options_;
  at::Tensor cos_LD_;
  at::Tensor sin_LD_;
};

}  // namespace slimpack
