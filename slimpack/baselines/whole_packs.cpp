// Baselines whose packs hold whole sequences: fixed packing, and verl's balanced micro-batches.
#include <algorithm>
#include <numeric>
#include <utility>

#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

BaselinePlan fixed_packing(const Job& job, const SequenceLengths& lengths, Packing packing) {
  const auto packs = pack_sequences(lengths, all_sequences(lengths), job.context, packing);
  return {.plan = whole_step(job.layout, lengths, deal(packs, job.replicas))};
}

using Packs = std::vector<std::vector<SequenceId>>;

/// `costs` are by SequenceId; heaviest part first.
Packs balanced_parts(const std::vector<SequenceId>& sequences,
                     const std::vector<std::int64_t>& costs, std::size_t parts) {
  std::vector<std::int64_t> own;
  own.reserve(sequences.size());
  for (const SequenceId id : sequences) own.push_back(costs[id.index()]);
  Packs out;
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

/// Orders packs that go from heavy to light as … 4 2 0 1 3 5 …, so that light packs fill and drain
/// the pipeline.
Packs light_at_both_ends(const Packs& packs) {
  Packs ordered;
  for (std::size_t i = (packs.size() + 1) / 2; i-- > 0;) ordered.push_back(packs[2 * i]);
  for (std::size_t i = 1; i < packs.size(); i += 2) ordered.push_back(packs[i]);
  return ordered;
}

}  // namespace

BaselinePlan first_fit_baseline(const Job& job, const SequenceLengths& lengths,
                                const RecomputingCosts& /*cost*/) {
  return fixed_packing(job, lengths, Packing::kFirstFit);
}

BaselinePlan best_fit_baseline(const Job& job, const SequenceLengths& lengths,
                               const RecomputingCosts& /*cost*/) {
  return fixed_packing(job, lengths, Packing::kBestFit);
}

BaselinePlan concatenated_baseline(const Job& job, const SequenceLengths& lengths,
                                   const RecomputingCosts& /*cost*/) {
  return fixed_packing(job, lengths, Packing::kConcatenated);
}

// 1. Karmarkar–Karp over the replicas.
// 2. Karmarkar–Karp over each replica's packs, the same number on each replica. Begin with as many
//    as the replica with the most tokens needs, and add one until no pack exceeds the context.
BaselinePlan balanced_baseline(const Job& job, const SequenceLengths& lengths,
                               const RecomputingCosts& cost) {
  const std::vector<std::int64_t> costs = sequence_costs(job.layout, lengths, cost);
  const Packs shares =
      balanced_parts(all_sequences(lengths), costs, static_cast<std::size_t>(job.replicas));
  std::int64_t count = 1;
  for (const auto& share : shares)
    count = std::max(
        count, (tokens_of(share, lengths) + job.context - Tokens(1)).count() / job.context.count());
  std::vector<Packs> packs;
  for (bool fits = false; !fits; ++count) {
    fits = true;
    packs.clear();
    for (std::size_t r = 0; r < shares.size() && fits; ++r) {
      packs.emplace_back();
      if (shares[r].empty()) continue;
      packs.back() = balanced_parts(shares[r], costs,
                                    std::min(static_cast<std::size_t>(count), shares[r].size()));
      fits = std::all_of(packs.back().begin(), packs.back().end(),
                         [&](const auto& pack) { return tokens_of(pack, lengths) <= job.context; });
    }
  }
  for (Packs& own : packs) own = light_at_both_ends(own);
  return {.plan = whole_step(job.layout, lengths, packs)};
}

}  // namespace slimpack
