// Row remapping: rows of a MicroPack move from the members of its group that hold them to those
// that attend with them, and back (Zeppelin, arXiv:2509.21841).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The rows of a MicroPack that a replica passes to others: by member of its group, numbers of own
/// rows (int64). They lie where the rows do when a remap uses them.
struct RemappedRows {
  std::vector<at::Tensor> held;       ///< those that the rank holds, by who attends with them
  std::vector<at::Tensor> attending;  ///< those with which the rank attends, by who holds them

  /// On a CPU. REQUIRES: a MicroPack with row zones.
  RemappedRows(const MicroPack& pack, ReplicaId replica);
  [[nodiscard]] std::vector<at::Tensor*> tensors();
};

/// Moves rows of one MicroPack; made once per action. All members of the group make the same calls.
class RowRemap {
 public:
  /// `group`: the replicas that run the MicroPack. Both outlive the object.
  RowRemap(const RemappedRows& rows, Collective& group) : rows_(rows), group_(group) {}

  /// The rows with which the rank attends, from those that it and others hold; dimension 0 is the
  /// row. Both are in the order of the slices.
  [[nodiscard]] at::Tensor to_attention(const at::Tensor& held) const;
  /// Moves the rows of attention back to the ranks that hold them.
  [[nodiscard]] at::Tensor from_attention(const at::Tensor& attending) const;

 private:
  using RowsByMember = std::vector<at::Tensor>;
  [[nodiscard]] at::Tensor moved(const at::Tensor& own, const RowsByMember& leaving,
                                 const RowsByMember& coming) const;

  const RemappedRows& rows_;
  Collective& group_;
};

}  // namespace slimpack
