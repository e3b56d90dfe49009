// Pack runs: which slices of a MicroPack one call of the attention kernel takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/kernels/attention_kernel.h"
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

}  // namespace slimpack
