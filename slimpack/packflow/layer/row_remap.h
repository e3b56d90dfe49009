// Row remapping: rows of a MicroPack move from the members of its group that hold them to those
// that attend with them, and back (Zeppelin, arXiv:2509.21841).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Of one MicroPack, made once per action. All members of the group make the same calls.
class RowRemap {
 public:
  /// `group`: the replicas that run the MicroPack; it outlives the object. `device`: of the rows.
  RowRemap(const MicroPack& pack, Collective& group, at::Device device);

  /// The rows with which the rank attends, from those that it and others hold; dimension 0 is the
  /// row. Both are in the order of the slices.
  [[nodiscard]] at::Tensor to_attention(const at::Tensor& held) const;
  /// The reverse.
  [[nodiscard]] at::Tensor from_attention(const at::Tensor& attending) const;

 private:
  /// By other member: numbers of own rows (int64).
  using RowsByMember = std::vector<at::Tensor>;
  [[nodiscard]] at::Tensor moved(const at::Tensor& own, const RowsByMember& leaving,
                                 const RowsByMember& coming) const;

  Collective& group_;
  RowsByMember held_;       ///< those that the rank holds, by who attends with them
  RowsByMember attending_;  ///< those with which the rank attends, by who holds them
};

}  // namespace slimpack
