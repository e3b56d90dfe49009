// Rows of a MicroPack as attention takes them: which slices one call of its kernel takes, and rows
// that move from the members of its group that hold them to those that attend with them, and back
// (Zeppelin, arXiv:2509.21841).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/kernels/attention_kernel.h"
#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {

/// Neighbouring slices of one zone. `slices` are the MicroPack's.
struct PackRun {
  std::span<const Slice> slices;
  Zone zone;                                 ///< the rank is one of its members
  std::int64_t row = 0;                      ///< the first, of the rank's rows of the MicroPack
  std::vector<std::int64_t> rows_of;         ///< by slice
  std::optional<JoinedSequences> sequences;  ///< where there are several

  [[nodiscard]] std::int64_t rows() const;  ///< of all
  /// Whether other replicas hold rows of these slices.
  [[nodiscard]] bool shared() const { return zone.size > 1; }
};

/// Made once per step and MicroPack, with bounds on a CPU. Slices that a zone shares run together.
/// Other slices that are neighbours run together where the kernel takes several sequences and that
/// is worth while (cost/attention_rules.h); else each runs by itself. The slice `alone` runs by
/// itself in any case. Slices of which the rank holds nothing have no run. `like`: of the type of
/// the queries, and where they are. The MicroPack of `share` must outlive the runs.
[[nodiscard]] std::vector<PackRun> pack_runs(const PackShare& share, const at::Tensor& like,
                                             const AttentionHeads& heads,
                                             std::optional<std::size_t> alone = std::nullopt);

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
