// Baselines whose packs hold whole sequences: fixed packing, and verl's balanced micro-batches.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"

namespace slimpack {
namespace {

/// Least numbers of packs of a replica that `balanced` tries, as multiples of the stages.
constexpr std::int32_t kPacksPerStage[] = {1, 2, 4, 8};

SequencePacks fixed_packs(const BaselineInput& input, Packing packing) {
  return pack_sequences(input.lengths, all_sequences(input.lengths), pack_tokens(input), packing);
}

/// `costs` are by SequenceId; heaviest part first.
SequencePacks balanced_parts(const std::vector<SequenceId>& sequences,
                             const std::vector<std::int64_t>& costs, std::size_t parts) {
  std::vector<std::int64_t> own;
  own.reserve(sequences.size());
  for (const SequenceId id : sequences) own.push_back(costs[id.index()]);
  SequencePacks out;
  for (const auto& part : karmarkar_karp(own, parts)) {
    auto& ids = out.emplace_back();
    for (const std::size_t i : part) ids.push_back(sequences[i]);
  }
  return out;
}

Tokens tokens_of(const std::vector<SequenceId>& sequences, const SequenceLengths& lengths) {
  return std::accumulate(sequences.begin(), sequences.end(), Tokens(0),
                         [&](Tokens sum, SequenceId id) { return sum + lengths[id.index()]; });
}

/// No fewer packs of the context hold so many tokens.
std::int64_t packs_at_least(Tokens tokens, Tokens context) {
  return (tokens + context - Tokens(1)).count() / context.count();
}

/// Each share in so many packs, or in one for each of its sequences; nullopt if a pack exceeds the
/// context.
std::optional<std::vector<SequencePacks>> packs_within(const BaselineInput& input,
                                                       const SequencePacks& shares,
                                                       const std::vector<std::int64_t>& costs,
                                                       std::size_t count) {
  std::vector<SequencePacks> packs;
  for (const std::vector<SequenceId>& share : shares) {
    SequencePacks& own = packs.emplace_back();
    if (share.empty()) continue;
    own = balanced_parts(share, costs, std::min(count, share.size()));
    for (const std::vector<SequenceId>& pack : own)
      if (tokens_of(pack, input.lengths) > input.context) return std::nullopt;
  }
  return packs;
}

}  // namespace

SequencePacks first_fit_packs(const BaselineInput& input) {
  return fixed_packs(input, Packing::kFirstFit);
}

SequencePacks best_fit_packs(const BaselineInput& input) {
  return fixed_packs(input, Packing::kBestFit);
}

SequencePacks concatenated_packs(const BaselineInput& input) {
  return fixed_packs(input, Packing::kConcatenated);
}

BaselinePlan whole_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  const bool zero_bubble = input.layout().placement.turns_back() && input.table.splits_backward();
  return {.plan = whole_step(input, shares), .split = zero_bubble};
}

std::vector<Tuning> packing_tunings(const BaselineInput& input) {
  return dealt_tunings(input, pack_tunings(input));
}

// 1. Karmarkar–Karp over the replicas.
// 2. Karmarkar–Karp over each replica's packs, the same number on each replica. Begin with as many
//    as the replica with the most tokens needs. Where a pack exceeds the context, add 1, 2, 4, …
//    until none does, then bisect: where packs are many, adding one at a time takes too long.
std::vector<SequencePacks> balanced_shares(const BaselineInput& input) {
  const SequenceLengths& lengths = input.lengths;
  const std::vector<std::int64_t> costs = sequence_costs(input);
  const SequencePacks shares =
      balanced_parts(all_sequences(lengths), costs, static_cast<std::size_t>(input.replicas()));
  std::int64_t count = std::max(1, input.tuning.packs);
  for (const auto& share : shares)
    count = std::max(count, packs_at_least(tokens_of(share, lengths), input.context));
  const auto of_count = [&](std::int64_t packs) {
    return packs_within(input, shares, costs, static_cast<std::size_t>(packs));
  };
  std::optional<std::vector<SequencePacks>> packs = of_count(count);
  std::int64_t too_few = count - 1;
  for (std::int64_t more = 1; !packs; more *= 2) {
    too_few = count;
    count += more;
    packs = of_count(count);
  }
  while (count - too_few > 1) {
    const std::int64_t middle = too_few + (count - too_few) / 2;
    std::optional<std::vector<SequencePacks>> fewer = of_count(middle);
    (fewer ? count : too_few) = middle;
    if (fewer) packs = std::move(fewer);
  }
  return *std::move(packs);
}

std::vector<Tuning> balanced_tunings(const BaselineInput& input) {
  if (input.lengths.size() == 1) return {Tuning{}};
  // The tokens alone ask for so many packs, whatever is wanted.
  const std::int64_t asked =
      packs_at_least(total_tokens(input.lengths), input.context * input.replicas());
  std::vector<std::int32_t> packs{0};
  for (const std::int32_t per_stage : kPacksPerStage)
    if (per_stage * input.layout().ranks() > asked)
      packs.push_back(per_stage * input.layout().ranks());
  const std::vector<PackOrder> orders{PackOrder::kPublished, PackOrder::kHeaviestFirst,
                                      PackOrder::kLightestFirst};
  return varied(varied({Tuning{}}, &Tuning::packs, packs), &Tuning::order, orders);
}

}  // namespace slimpack
