// Pack runs: which slices of a MicroPack one call of the attention kernel takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// Neighbouring slices. `slices` are the MicroPack's.
struct PackRun {
  std::span<const Slice> slices;
  std::int64_t row = 0;                      ///< the first, in the MicroPack
  std::vector<std::int64_t> rows_of;         ///< by slice
  std::optional<JoinedSequences> sequences;  ///< where there are several

  [[nodiscard]] std::int64_t rows() const;  ///< of all
};

/// Made once per action, with its bounds on the device. Neighbours without a prefix run together
/// where the kernel takes several sequences; else each slice runs by itself. `like`: of the type of
/// the queries, and where they are.
[[nodiscard]] std::vector<PackRun> pack_runs(const MicroPack& pack, const RowShare& share,
                                             const at::Tensor& like, std::int64_t head_dim);

}  // namespace slimpack
