// Micro-batches: whole sequences to data-parallel ranks and their micro-batches, for runtimes that
// keep sequences whole; equal work on every rank under a strict cap of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

struct MicroBatchRule {
  std::int32_t ranks = 1;
  std::int32_t per_rank = 1;  ///< micro-batches of every rank; none is empty if there are enough
  Tokens cap{4096};           ///< no micro-batch holds more

  bool operator==(const MicroBatchRule&) const = default;
};

struct MicroBatches {
  /// [rank][micro-batch]: indices of its sequences, ascending. Each rank's are ordered by falling
  /// work, because ranks that share gradients or parameters run micro-batch k at the same time.
  std::vector<std::vector<std::vector<std::int32_t>>> of_rank;
  std::vector<double> work;  ///< by rank

  /// The most loaded rank's work ÷ the mean.
  [[nodiscard]] double imbalance() const;
};

/// Longest processing time first under the cap or, where that finds no room, best fit decreasing by
/// tokens; then moves and swaps from the most loaded rank until none makes it lighter. `work` and
/// `tokens` are by sequence. nullopt: a sequence found no room, which a longer search might find.
/// Deterministic. REQUIRES: work ≥ 0, tokens ≥ 1, as many of both; a rule of numbers ≥ 1. Cost:
/// O(sequences · (log sequences + ranks · per_rank)), then O(sequences² ÷ ranks) a move or swap.
[[nodiscard]] std::optional<MicroBatches> balanced_micro_batches(std::span<const double> work,
                                                                 std::span<const Tokens> tokens,
                                                                 const MicroBatchRule& rule);

}  // namespace slimpack
