// The functions behind the table of baselines; docs/baselines.md explains each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"

namespace slimpack {

/// Packs of whole sequences (packed.h), one MicroPack each.
[[nodiscard]] SequencePacks first_fit_packs(const BaselineInput& input);
[[nodiscard]] SequencePacks best_fit_packs(const BaselineInput& input);
[[nodiscard]] SequencePacks concatenated_packs(const BaselineInput& input);
[[nodiscard]] BaselinePlan whole_plan(const BaselineInput& input,
                                      const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> packing_tunings(const BaselineInput& input);

/// verl: Karmarkar–Karp over replicas, then over each replica's packs.
[[nodiscard]] std::vector<SequencePacks> balanced_shares(const BaselineInput& input);
[[nodiscard]] std::vector<Tuning> balanced_tunings(const BaselineInput& input);

/// DynaPipe: consecutive splits of the sorted sequences, then Karmarkar–Karp over replicas.
[[nodiscard]] SequencePacks dynapipe_packs(const BaselineInput& input);
[[nodiscard]] BaselinePlan dynapipe_plan(const BaselineInput& input,
                                         const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> dynapipe_tunings(const BaselineInput& input);

/// Seq1F1B: best-fit packs cut into equal FLOPs.
[[nodiscard]] BaselinePlan seq1f1b_plan(const BaselineInput& input,
                                        const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> seq1f1b_tunings(const BaselineInput& input);

/// SlimPipe: best-fit packs cut into equal tokens, a multiple of the pipeline's ranks of slices a
/// pack. With Tuning::tails the groups of packed_tails.h.
[[nodiscard]] SequencePacks slimpipe_packs(const BaselineInput& input);
[[nodiscard]] BaselinePlan slimpipe_plan(const BaselineInput& input,
                                         const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> slimpipe_tunings(const BaselineInput& input);

/// InfiniPipe: sequences cut where the longest has chunks of equal time, the short ones packed
/// (elastic_chunks.h).
[[nodiscard]] SequencePacks infinipipe_packs(const BaselineInput& input);
[[nodiscard]] BaselinePlan infinipipe_plan(const BaselineInput& input,
                                           const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> infinipipe_tunings(const BaselineInput& input);

/// Megatron's hybrid context parallelism: each sequence on as many replicas as it needs.
[[nodiscard]] BaselinePlan context_parallel_plan(const BaselineInput& input,
                                                 const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> context_parallel_tunings(const BaselineInput& input);
/// Megatron's dynamic context parallelism: packs on as many replicas as the longest sequence of
/// each needs, more where that shortens the microbatch.
[[nodiscard]] BaselinePlan dynamic_cp_plan(const BaselineInput& input,
                                           const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> dynamic_cp_tunings(const BaselineInput& input);
/// FCP: best-fit packs, each on as many replicas as make the microbatch short.
[[nodiscard]] BaselinePlan fcp_plan(const BaselineInput& input,
                                    const std::vector<SequencePacks>& shares);
/// Context parallelism of one size for all sequences.
[[nodiscard]] BaselinePlan token_balanced_plan(const BaselineInput& input,
                                               const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> token_balanced_tunings(const BaselineInput& input);
[[nodiscard]] std::int32_t token_balanced_group(const BaselineInput& input);

/// Zeppelin: micro-batches as a data loader hands them out; which ranks share a sequence follows
/// from its length (zones/zones.h).
[[nodiscard]] SequencePacks zeppelin_packs(const BaselineInput& input);
[[nodiscard]] BaselinePlan zeppelin_plan(const BaselineInput& input,
                                         const std::vector<SequencePacks>& shares);
[[nodiscard]] std::vector<Tuning> zeppelin_tunings(const BaselineInput& input);
[[nodiscard]] std::int32_t zeppelin_group(const BaselineInput& input);

/// The most replicas that may share a pack: a power of two, at most the job's replicas and the
/// largest group whose merging the costs know.
[[nodiscard]] std::int32_t largest_group(std::int32_t replicas, std::int32_t largest_merge);
/// The most replicas that may share a pack where groups of one size share all packs. The size
/// divides the job's replicas.
[[nodiscard]] std::int32_t largest_dividing_group(const BaselineInput& input);
/// The tokens of a shared pack that one replica takes: the tuning's, else 8,192; more where
/// `largest` replicas could not hold the context otherwise.
[[nodiscard]] Tokens shared_tokens(const BaselineInput& input, std::int32_t largest);
/// Shares from 1,024 tokens to the context, each twice the one before.
[[nodiscard]] std::vector<Tuning> share_tunings(const BaselineInput& input, std::int32_t largest);

/// The tokens that a pack holds: the tuning's, else the context.
[[nodiscard]] Tokens pack_tokens(const BaselineInput& input);
/// The sizes of packs that are tried: the context (0), and shares of it down to a quarter, as far
/// as the longest sequence allows.
[[nodiscard]] std::vector<Tuning> pack_tunings(const BaselineInput& input);
/// `tunings` with each dealing and order. One sequence: as they are.
[[nodiscard]] std::vector<Tuning> dealt_tunings(const BaselineInput& input,
                                                const std::vector<Tuning>& tunings);

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

/// Orders of packs with these costs, as DynaPipe tries them (optimize_schedule): first the given
/// order, then every order of three clusters of similar packs (four for at most 20 packs). The
/// packs of a cluster stay in the given order. k-means on the costs makes the clusters. Each order
/// lists indices. Deterministic. Cost: O(n log n) and the result.
[[nodiscard]] std::vector<std::vector<std::size_t>> pack_orders(
    std::span<const std::int64_t> costs);

/// Items with these costs in an order. Ties: the lower index is heavier. kPublished: as given.
[[nodiscard]] std::vector<std::size_t> ordered_items(std::span<const std::int64_t> costs,
                                                     PackOrder order);

/// How many replicas share a sequence, by its length.
struct ContextSharing {
  /// The tokens of a shared pack that one replica takes.
  Tokens per_replica;
  /// The largest group: a power of two, at most the replicas and the largest merge that the cost
  /// model knows.
  std::int32_t largest = 1;
  std::int32_t least = 1;  ///< the smallest group: a power of two, at most `largest`

  /// The replicas that a sequence needs: length ÷ per_replica, rounded up to a power of two, at
  /// least `least`.
  [[nodiscard]] std::int32_t replicas_for(Tokens length) const;
};
[[nodiscard]] ContextSharing context_sharing(const BaselineInput& input);

}  // namespace slimpack
