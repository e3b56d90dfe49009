// The functions behind the table of baselines; docs/baselines.md explains each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"

namespace slimpack {

/// Packs of whole sequences (packed.h), dealt to the replicas in order.
[[nodiscard]] BaselinePlan first_fit_baseline(const Job& job, const SequenceLengths& lengths,
                                              const RecomputingCosts& cost);
[[nodiscard]] BaselinePlan best_fit_baseline(const Job& job, const SequenceLengths& lengths,
                                             const RecomputingCosts& cost);
[[nodiscard]] BaselinePlan concatenated_baseline(const Job& job, const SequenceLengths& lengths,
                                                 const RecomputingCosts& cost);

/// verl: Karmarkar–Karp over replicas, then over each replica's packs. Light packs are at both
/// ends.
[[nodiscard]] BaselinePlan balanced_baseline(const Job& job, const SequenceLengths& lengths,
                                             const RecomputingCosts& cost);

/// DynaPipe: consecutive splits of the sorted sequences, then Karmarkar–Karp over replicas.
[[nodiscard]] BaselinePlan dynapipe_baseline(const Job& job, const SequenceLengths& lengths,
                                             const RecomputingCosts& cost);

/// Best-fit packs cut into equal FLOPs (Seq1F1B) or equal tokens (SlimPipe).
[[nodiscard]] BaselinePlan seq1f1b_baseline(const Job& job, const SequenceLengths& lengths,
                                            const RecomputingCosts& cost);
[[nodiscard]] BaselinePlan slimpipe_baseline(const Job& job, const SequenceLengths& lengths,
                                             const RecomputingCosts& cost);

/// Megatron's hybrid context parallelism: each sequence on as many replicas as it needs.
[[nodiscard]] BaselinePlan context_parallel_baseline(const Job& job, const SequenceLengths& lengths,
                                                     const RecomputingCosts& cost);
/// Context parallelism of one size for all sequences.
[[nodiscard]] BaselinePlan token_balanced_baseline(const Job& job, const SequenceLengths& lengths,
                                                   const RecomputingCosts& cost);

/// Items in their order, and the pipeline that runs their packs. consecutive_split minimises
/// DynaPipe's estimate of its time: (Σ packs (overhead + Σ its costs)) ÷ replicas + (stages − 1) ·
/// the largest pack.
struct SplitProblem {
  std::span<const std::int64_t> costs;  ///< of each item, ≥ 1
  std::span<const Tokens> lengths;      ///< of each item, ≤ capacity
  Tokens capacity;                      ///< of a pack
  double pack_overhead = 0;
  std::int32_t stages = 1;
  std::int32_t replicas = 1;
};

/// Ends of consecutive packs: pack k is [ends[k − 1], ends[k]). The split is optimal up to 0.1%:
/// splits whose largest packs are closer than that are tried once.
/// Cost: O(n) for each largest cost that is tried, at most ln(Σ costs ÷ largest cost) ÷ 0.1%.
[[nodiscard]] std::vector<std::size_t> consecutive_split(const SplitProblem& problem);

/// How context_parallel_baseline and token_balanced_baseline share sequences.
struct ContextSharing {
  /// The tokens of a shared pack that one replica takes.
  Tokens per_replica;
  /// The largest group: a power of two, at most the replicas and the largest merge that the cost
  /// model knows.
  std::int32_t largest = 1;

  /// The replicas that a sequence needs: length ÷ per_replica, rounded up to a power of two.
  [[nodiscard]] std::int32_t replicas_for(Tokens length) const;
};
[[nodiscard]] ContextSharing context_sharing(const Job& job, const RecomputingCosts& cost);

}  // namespace slimpack
