// Baselines whose packs hold whole sequences: fixed packing, and verl's balanced micro-batches.
#include <algorithm>
#include <numeric>
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
//    as the replica with the most tokens needs, and add one until no pack exceeds the context.
std::vector<SequencePacks> balanced_shares(const BaselineInput& input) {
  const SequenceLengths& lengths = input.lengths;
  const Tokens context = input.context;
  const std::vector<std::int64_t> costs = sequence_costs(input);
  const SequencePacks shares =
      balanced_parts(all_sequences(lengths), costs, static_cast<std::size_t>(input.replicas()));
  std::int64_t count = std::max(1, input.tuning.packs);
  for (const auto& share : shares)
    count = std::max(count,
                     (tokens_of(share, lengths) + context - Tokens(1)).count() / context.count());
  std::vector<SequencePacks> packs;
  for (bool fits = false; !fits; ++count) {
    fits = true;
    packs.clear();
    for (std::size_t r = 0; r < shares.size() && fits; ++r) {
      packs.emplace_back();
      if (shares[r].empty()) continue;
      packs.back() = balanced_parts(shares[r], costs,
                                    std::min(static_cast<std::size_t>(count), shares[r].size()));
      fits = std::all_of(packs.back().begin(), packs.back().end(),
                         [&](const auto& pack) { return tokens_of(pack, lengths) <= context; });
    }
  }
  return packs;
}

std::vector<Tuning> balanced_tunings(const BaselineInput& input) {
  if (input.lengths.size() == 1) return {Tuning{}};
  std::vector<std::int32_t> packs{0};
  for (const std::int32_t per_stage : kPacksPerStage)
    packs.push_back(per_stage * input.layout().ranks());
  const std::vector<PackOrder> orders{PackOrder::kPublished, PackOrder::kHeaviestFirst,
                                      PackOrder::kLightestFirst};
  return varied(varied({Tuning{}}, &Tuning::packs, packs), &Tuning::order, orders);
}

}  // namespace slimpack
