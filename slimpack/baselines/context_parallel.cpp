// Baselines that share packs between replicas by context parallelism.
#include <algorithm>
#include <bit>
#include <utility>

#include "slimpack/baselines/hybrid_rounds.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

/// A sequence of at most so many tokens is not shared. Megatron leaves this figure
/// (max_seqlen_per_dp_cp_rank) to its user.
constexpr Tokens kLeastShare{8192};

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int32_t largest_merge(const Costs& cost) {
  return 1 << std::min<std::size_t>(cost.merge.size(), 30);
}

std::int32_t power_of_two_above(std::int64_t count) {
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

/// Packs of a group's sequences in order. A pack holds as many tokens as the replicas take
/// together.
std::vector<MicroPack> packs_of(const SharingGroup& group, const SequenceLengths& lengths,
                                Tokens per_replica) {
  std::vector<MicroPack> packs;
  for (const auto& ids : pack_sequences(lengths, group.sequences, per_replica * group.count,
                                        Packing::kConcatenated)) {
    packs.push_back(whole_pack(lengths, ids));
    packs.back().replicas = group.count;
  }
  return packs;
}

}  // namespace

std::int32_t ContextSharing::replicas_for(Tokens length) const {
  return power_of_two_above(ceil_divide(length.count(), per_replica.count()));
}

ContextSharing context_sharing(const Job& job, const RecomputingCosts& cost) {
  const auto replicas = static_cast<std::uint32_t>(job.replicas);
  const auto largest =
      std::min(static_cast<std::int32_t>(std::bit_floor(replicas)), largest_merge(cost));
  return {std::max(kLeastShare, Tokens(ceil_divide(job.context.count(), largest))), largest};
}

BaselinePlan context_parallel_baseline(const Job& job, const SequenceLengths& lengths,
                                       const RecomputingCosts& cost) {
  const ContextSharing sharing = context_sharing(job, cost);
  BaselinePlan out;
  out.columns.resize(static_cast<std::size_t>(job.replicas));
  std::vector<PackPlan> replicas(static_cast<std::size_t>(job.replicas));
  std::int32_t column = 0;
  for (const SharingRound& round : hybrid_rounds(lengths, sharing, job.replicas)) {
    std::int32_t round_columns = 0;
    for (const SharingGroup& group : round) {
      const auto packs = packs_of(group, lengths, sharing.per_replica);
      for (std::int32_t r = group.first; r < group.first + group.count; ++r) {
        auto& forward = replicas[static_cast<std::size_t>(r)].forward;
        forward.insert(forward.end(), packs.begin(), packs.end());
        for (std::size_t k = 0; k < packs.size(); ++k)
          out.columns[static_cast<std::size_t>(r)].push_back(column + static_cast<std::int32_t>(k));
      }
      round_columns = std::max(round_columns, static_cast<std::int32_t>(packs.size()));
    }
    column += round_columns;
  }
  for (PackPlan& packs : replicas) packs.backward = packs.forward;
  out.plan = step_of(job.layout, lengths, std::move(replicas));
  return out;
}

BaselinePlan token_balanced_baseline(const Job& job, const SequenceLengths& lengths,
                                     const RecomputingCosts& cost) {
  const std::int32_t wanted =
      power_of_two_above(ceil_divide(job.context.count(), kLeastShare.count()));
  const std::int32_t divides = job.replicas & -job.replicas;
  const std::int32_t share = std::min({wanted, divides, largest_merge(cost)});
  const auto packs =
      pack_sequences(lengths, all_sequences(lengths), job.context, Packing::kBestFit);
  std::vector<PackPlan> replicas;
  for (const auto& own : deal(packs, job.replicas / share)) {
    PackPlan group;
    for (const auto& sequences : own) {
      group.forward.push_back(whole_pack(lengths, sequences));
      group.forward.back().replicas = share;
    }
    group.backward = group.forward;
    replicas.insert(replicas.end(), static_cast<std::size_t>(share), group);
  }
  return {.plan = step_of(job.layout, lengths, std::move(replicas))};
}

}  // namespace slimpack
