// Baselines that share packs between replicas by context parallelism.
#include <algorithm>
#include <bit>
#include <utility>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/sharing_rounds.h"
#include "slimpack/cost/abilities.h"

namespace slimpack {
namespace {

/// A sequence of at most so many tokens is not shared. Megatron leaves this figure
/// (max_seqlen_per_dp_cp_rank) to its user, who may tune it from kLeastShare on.
constexpr Tokens kPublishedShare{8192};
constexpr Tokens kLeastShare{1024};
/// dynamic-cp is tried with so many replicas a pack at least: as many as nodes have GPUs.
constexpr std::int32_t kMostLeastReplicas = 8;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
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

/// Every group's packs in the columns of its round, one after another.
BaselinePlan plan_of_rounds(const BaselineInput& input, const std::vector<SharingRound>& rounds,
                            Tokens per_replica) {
  BaselinePlan out;
  out.columns.resize(static_cast<std::size_t>(input.replicas()));
  std::vector<PackPlan> replicas(out.columns.size());
  std::int32_t column = 0;
  for (const SharingRound& round : rounds) {
    std::int32_t round_columns = 0;
    for (const SharingGroup& group : round) {
      const auto packs = packs_of(group, input.lengths, per_replica);
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
  if (std::ranges::all_of(out.columns, [&](const auto& own) { return std::ssize(own) == column; }))
    out.columns.clear();
  for (PackPlan& packs : replicas) packs.backward = packs.forward;
  out.plan = step_of(input, std::move(replicas));
  return out;
}

}  // namespace

std::int32_t largest_group(std::int32_t replicas, std::int32_t largest_merge) {
  const auto power = std::bit_floor(static_cast<std::uint32_t>(replicas));
  return std::min(static_cast<std::int32_t>(power), largest_merge);
}

std::int32_t largest_dividing_group(const BaselineInput& input) {
  const std::int32_t divides = input.replicas() & -input.replicas();
  return std::min(divides, input.table.abilities().largest_merge);
}

Tokens shared_tokens(const BaselineInput& input, std::int32_t largest) {
  const Tokens share = input.tuning.share > Tokens(0) ? input.tuning.share : kPublishedShare;
  return std::max(share, Tokens(ceil_divide(input.context.count(), largest)));
}

std::vector<Tuning> share_tunings(const BaselineInput& input, std::int32_t largest) {
  const Tokens least(ceil_divide(input.context.count(), largest));
  std::vector<Tokens> shares{Tokens(0)};
  for (Tokens share = kLeastShare; share < input.context; share = share * 2)
    if (share >= least && share != kPublishedShare) shares.push_back(share);
  shares.push_back(input.context);
  return varied({Tuning{}}, &Tuning::share, shares);
}

std::int32_t ContextSharing::replicas_for(Tokens length) const {
  return std::max(least, power_of_two_above(ceil_divide(length.count(), per_replica.count())));
}

ContextSharing context_sharing(const BaselineInput& input) {
  const std::int32_t largest =
      largest_group(input.replicas(), input.table.abilities().largest_merge);
  return {shared_tokens(input, largest), largest};
}

BaselinePlan context_parallel_plan(const BaselineInput& input,
                                   const std::vector<SequencePacks>& /*shares*/) {
  const ContextSharing sharing = context_sharing(input);
  return plan_of_rounds(input, hybrid_rounds(input.lengths, sharing, input.replicas()),
                        sharing.per_replica);
}

std::vector<Tuning> context_parallel_tunings(const BaselineInput& input) {
  return share_tunings(input, context_sharing(input).largest);
}

BaselinePlan dynamic_cp_plan(const BaselineInput& input,
                             const std::vector<SequencePacks>& /*shares*/) {
  ContextSharing sharing = context_sharing(input);
  sharing.least = std::max(1, input.tuning.group);
  return plan_of_rounds(input, dynamic_rounds(input.lengths, sharing, input.replicas()),
                        sharing.per_replica);
}

std::vector<Tuning> dynamic_cp_tunings(const BaselineInput& input) {
  const std::int32_t largest = context_sharing(input).largest;
  std::vector<Tuning> tunings = share_tunings(input, largest);
  for (std::int32_t group = 2; group <= std::min(largest, kMostLeastReplicas); group *= 2)
    tunings.push_back({.group = group});
  return tunings;
}

BaselinePlan fcp_plan(const BaselineInput& input, const std::vector<SequencePacks>& /*shares*/) {
  const ContextSharing sharing = context_sharing(input);
  return plan_of_rounds(input, flexible_rounds(input, sharing), sharing.per_replica);
}

std::int32_t token_balanced_group(const BaselineInput& input) {
  if (input.tuning.group > 0) return input.tuning.group;
  return std::min(power_of_two_above(ceil_divide(input.context.count(), kPublishedShare.count())),
                  largest_dividing_group(input));
}

BaselinePlan token_balanced_plan(const BaselineInput& input,
                                 const std::vector<SequencePacks>& shares) {
  const std::int32_t count = token_balanced_group(input);
  return {.plan = shared_step(input, shares, count, [&](const auto& sequences) {
            MicroPack pack = whole_pack(input.lengths, sequences);
            pack.replicas = count;
            return pack;
          })};
}

std::vector<Tuning> token_balanced_tunings(const BaselineInput& input) {
  std::vector<std::int32_t> groups{0};
  for (std::int32_t group = 1; group <= largest_dividing_group(input); group *= 2)
    if (group != token_balanced_group({input.table, input.context, input.lengths}))
      groups.push_back(group);
  return dealt_tunings(input, varied(pack_tunings(input), &Tuning::group, groups));
}

}  // namespace slimpack
