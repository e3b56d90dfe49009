// Rounds: which replicas share which sequences, round by round. Three systems of context
// parallelism divide sequences among groups of replicas in such rounds.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/baselines/makers.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Replicas [first, first + count) and the sequences that they share, in order.
struct SharingGroup {
  std::int32_t first = 0;
  std::int32_t count = 1;
  std::vector<SequenceId> sequences = {};

  bool operator==(const SharingGroup&) const = default;
};

/// One round: groups side by side from replica 0 on, wide groups first, so that each begins at a
/// multiple of its width. Replicas after the last group are idle.
using SharingRound = std::vector<SharingGroup>;

/// The groups side by side from replica 0 on. REQUIRES: wide groups first, powers of two.
[[nodiscard]] SharingRound side_by_side(SharingRound groups);
/// Doubles the first of the narrowest groups while so many replicas are free, up to `largest`.
/// REQUIRES: a group.
void widen_narrowest(SharingRound& groups, std::int32_t free, std::int32_t largest);

/// BalancedCPScheduler (megatron/core/pipeline_parallel/hybrid_cp_schedule.py). The work of a
/// sequence on g replicas is length² ÷ g. A round is filled until its replicas' work differs by at
/// most 5%. Every sequence is in exactly one round.
/// REQUIRES: sharing.replicas_for(length) ≤ sharing.largest ≤ replicas for every length.
/// Cost: O(rounds · sequences + sequences · replicas).
[[nodiscard]] std::vector<SharingRound> hybrid_rounds(const SequenceLengths& lengths,
                                                      const ContextSharing& sharing,
                                                      std::int32_t replicas);

/// DefaultDynamicCPScheduler (megatron/core/datasets/data_schedule.py). Every round is one
/// microbatch: a group has one pack of at most its width · sharing.per_replica tokens. The work of
/// a sequence on g replicas is length² ÷ g. Every sequence is in exactly one round.
/// REQUIRES: as hybrid_rounds. Cost: O(sequences · (log sequences + replicas)).
[[nodiscard]] std::vector<SharingRound> dynamic_rounds(const SequenceLengths& lengths,
                                                       const ContextSharing& sharing,
                                                       std::int32_t replicas);

/// FCP (arXiv:2602.21788). Every round is one microbatch, every group has one pack, as in
/// dynamic_rounds. Which sequences share a group follows from their tokens alone; how many replicas
/// a group gets, from predicted times. Every sequence is in exactly one round.
/// REQUIRES: as hybrid_rounds. Cost: O(n log n + rounds · groups).
[[nodiscard]] std::vector<SharingRound> flexible_rounds(const BaselineInput& input,
                                                        const ContextSharing& sharing);

/// A group's time on its least number of replicas, on twice as many, and so on.
using GroupTimes = std::vector<double>;

/// The replicas of each group with which the longest group is as short as possible: least[i] times
/// a power of two, at most `replicas` together. What is left doubles groups in turn, where that
/// makes them faster. REQUIRES: the least numbers fit; no times are empty.
/// Cost: O(groups · log² replicas).
[[nodiscard]] std::vector<std::int32_t> allotted_replicas(const std::vector<GroupTimes>& times,
                                                          const std::vector<std::int32_t>& least,
                                                          std::int32_t replicas);

}  // namespace slimpack
