// Step bound: no plan of these sequences takes less time, whatever its cuts and orders.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/stage_table.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// The freedom that plans have with sequences and with memory.
struct CutLimits {
  std::int32_t most_merged = 1;  ///< the most replicas that run a sequence together
  Tokens granularity{128};       ///< cuts lie at multiples of it
  /// The policies that layers may have to keep the memory cap, in place of the table's; empty = the
  /// table's. No layer of any plan within the limits may cost less than the table says.
  std::vector<Recompute> recompute = {};
  bool exchange_context = false;  ///< ranks of a pipeline may run parts of each other's attention
  std::optional<Bytes> memory_cap = std::nullopt;  ///< activations of a rank
};

/// A step to bound. Keeps references.
struct BoundProblem {
  const StageTable& table;
  const SequenceLengths& lengths;
  const CutLimits& limits;
};

/// The greatest of three bounds on every plan within the limits, whatever memory the ranks have,
/// plus the reduction of the first stage and the longest optimizer step. Only the last slice of a
/// sequence may be shorter than the granularity.
///  1. Work. On every stage, the replicas together need the time of all sequences uncut. No replica
///     starts there before the shortest slice has passed the stages before. After its last backward
///     the shortest slice has to pass them again.
///  2. Chains. The forward slices of a sequence follow each other on the first stage, and the last
///     of them passes all other stages. Then its backward slices follow each other on the last
///     stage, and the last of them comes back. The group of replicas that is fastest at this
///     counts.
///  3. Balance. Without merging: the bound of balance.h on the busiest stage.
/// If ranks exchange context, these count only the attention that a rank cannot give away: the one
/// that it gives runs meanwhile, so of equally fast ranks half stays. Then all ranks together need
/// the time of all sequences, too.
/// Weight gradients may be put off where the costs know them. On all stages but the first they then
/// delay neither a way back nor a chain.
/// REQUIRES: at least one sequence. Cost: O(sequences · stages).
[[nodiscard]] Nanos step_lower_bound(const BoundProblem& problem);

/// The bound without reduction and optimizer: until the last action ends.
[[nodiscard]] Nanos step_actions_bound(const BoundProblem& problem);

}  // namespace slimpack
