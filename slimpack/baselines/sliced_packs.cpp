// Baselines that cut packs into slices: of equal FLOPs (Seq1F1B), of equal tokens (SlimPipe), of
// equal time (InfiniPipe).
#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "slimpack/baselines/cut_pack.h"
#include "slimpack/baselines/elastic_chunks.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/packed_tails.h"

namespace slimpack {
namespace {

/// By the published settings a pack has at least this many slices, and at least one for each rank.
constexpr std::int32_t kLeastSlices = 4;
/// Tunings try at most this many slices, or one for each rank where there are more ranks.
constexpr std::int32_t kMostSlices = 64;

/// The step whose micro-batches, [share][pack], have these MicroPacks: `cut(pack)`, in forward
/// order. Backward they run in reverse.
template <class Cut>
BaselinePlan sliced_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares,
                         std::int32_t ahead_per_stage, const Cut& cut) {
  std::vector<PackPlan> replicas;
  for (const SequencePacks& own : shares) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& sequences : own) {
      const std::vector<MicroPack> slices = cut(sequences);
      plan.forward.insert(plan.forward.end(), slices.begin(), slices.end());
      plan.backward.insert(plan.backward.end(), slices.rbegin(), slices.rend());
    }
  }
  return {.plan = step_of(input, std::move(replicas)),
          .discipline = Discipline::kSlicedOneFOneB,
          .ahead_per_stage = ahead_per_stage,
          .split = input.tuning.split};
}

std::int32_t seq1f1b_slices(const BaselineInput& input) {
  return input.tuning.slices > 0 ? input.tuning.slices
                                 : std::max(input.layout().ranks(), kLeastSlices);
}

/// The published number: of the multiples of the ranks the least with enough slices.
std::int32_t published_slimpipe_slices(std::int32_t ranks) {
  return (kLeastSlices + ranks - 1) / ranks * ranks;
}

std::int32_t slimpipe_slices(const BaselineInput& input) {
  return input.tuning.slices > 0 ? input.tuning.slices
                                 : published_slimpipe_slices(input.layout().ranks());
}

/// The tokens of a full slice where tails are packed.
Tokens full_slice(const BaselineInput& input) {
  const std::int64_t slices = slimpipe_slices(input);
  return Tokens((pack_tokens(input).count() + slices - 1) / slices);
}

/// Every full slice's end, up to the longest sequence.
std::vector<Tokens> equal_ends(const BaselineInput& input) {
  std::vector<Tokens> ends;
  if (input.lengths.empty()) return ends;
  const Tokens longest = std::ranges::max(input.lengths);
  const Tokens slice = full_slice(input);
  for (Tokens end = slice; end <= longest; end = end + slice) ends.push_back(end);
  return ends;
}

/// The number of chunks of the longest sequence with which InfiniPipe's own estimate is shortest:
/// the chunks of a replica one after the other, and the pipeline's fill and drain of a chunk for
/// each stage but one. All chunks take equally long, so their number follows from the work.
std::int32_t published_infinipipe_chunks(const BaselineInput& input) {
  if (input.lengths.empty()) return 1;
  const PackCost cost = step_cost(input.table);
  const SliceWeight weight = time_weight(cost);
  const auto whole = [&](Tokens length) { return weight(Slice{SequenceId(), Tokens(0), length}); };
  double work = 0;
  for (const Tokens length : input.lengths) work += whole(length);
  const double longest = whole(std::ranges::max(input.lengths));
  std::int32_t best = 1;
  double best_time = std::numeric_limits<double>::infinity();
  for (std::int32_t chunks = 1; chunks <= kMostSlices; chunks *= 2) {
    const double chunk = longest / chunks + cost.per_pack;
    const double of_a_replica = std::max(1.0, work * chunks / longest / input.replicas());
    const double time = (of_a_replica + input.layout().ranks() - 1) * chunk;
    if (time < best_time) best = chunks;
    best_time = std::min(best_time, time);
  }
  return best;
}

/// Where InfiniPipe cuts every sequence.
std::vector<Tokens> elastic_ends(const BaselineInput& input) {
  const std::int32_t chunks =
      input.tuning.slices > 0 ? input.tuning.slices : published_infinipipe_chunks(input);
  return chunk_ends(input.lengths, time_weight(step_cost(input.table)), chunks);
}

/// Settings with packed tails, those whose slices have the same tokens once.
std::vector<Tuning> tail_tunings(const BaselineInput& input,
                                 const std::vector<std::int32_t>& counts) {
  std::vector<Tuning> out;
  std::set<Tokens> seen;
  for (Tuning& tuning : varied(pack_tunings(input), &Tuning::slices, counts)) {
    tuning.tails = true;
    if (seen.insert(full_slice({input.table, input.context, input.lengths, tuning})).second)
      out.push_back(tuning);
  }
  return dealt_tunings(input, out);
}

}  // namespace

BaselinePlan seq1f1b_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  PackCost forward;
  for (std::int32_t s = 0; s < input.layout().stages(); ++s)
    forward = forward + input.table.stage(StageId(s), Pass::kForward);
  const SliceWeight weight = time_weight(forward);
  const std::int32_t count = seq1f1b_slices(input);
  return sliced_plan(input, shares, input.layout().placement.stages_per_rank() > 1 ? 2 : 1,
                     [&](const std::vector<SequenceId>& sequences) {
                       return cut_pack(whole_pack(input.lengths, sequences), weight, count);
                     });
}

std::vector<Tuning> seq1f1b_tunings(const BaselineInput& input) {
  std::vector<std::int32_t> counts{0};
  for (std::int32_t count = 2; count <= kMostSlices; count *= 2)
    if (count != seq1f1b_slices(input)) counts.push_back(count);
  const std::vector<Tuning> whole =
      varied(dealt_tunings(input, pack_tunings(input)), &Tuning::slices, counts);
  if (!input.table.splits_backward() || input.layout().placement.stages_per_rank() > 1)
    return whole;
  return varied(whole, &Tuning::split, {false, true});
}

SequencePacks slimpipe_packs(const BaselineInput& input) {
  if (!input.tuning.tails) return best_fit_packs(input);
  return tail_groups(input.lengths, full_slice(input), step_cost(input.table));
}

BaselinePlan slimpipe_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  const std::int32_t count = slimpipe_slices(input);
  const std::vector<Tokens> ends = equal_ends(input);
  return sliced_plan(input, shares, 2, [&](const std::vector<SequenceId>& sequences) {
    return input.tuning.tails
               ? slices_at(input.lengths, sequences, ends)
               : cut_pack(whole_pack(input.lengths, sequences), SliceWeight{}, count);
  });
}

std::vector<Tuning> slimpipe_tunings(const BaselineInput& input) {
  const std::int32_t ranks = input.layout().ranks();
  const std::int32_t published = published_slimpipe_slices(ranks);
  std::vector<std::int32_t> others;
  for (std::int32_t count = ranks; count <= std::max(ranks, kMostSlices); count *= 2)
    if (count != published) others.push_back(count);
  const auto with = [&](std::int32_t first) {
    std::vector<std::int32_t> counts{first};
    counts.insert(counts.end(), others.begin(), others.end());
    return counts;
  };
  std::vector<Tuning> all =
      varied(dealt_tunings(input, pack_tunings(input)), &Tuning::slices, with(0));
  const std::vector<Tuning> tails = tail_tunings(input, with(published));
  all.insert(all.end(), tails.begin(), tails.end());
  return all;
}

SequencePacks infinipipe_packs(const BaselineInput& input) {
  return elastic_groups(input.lengths, time_weight(step_cost(input.table)), elastic_ends(input));
}

BaselinePlan infinipipe_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  const std::vector<Tokens> ends = elastic_ends(input);
  return sliced_plan(input, shares, 1, [&](const std::vector<SequenceId>& sequences) {
    return slices_at(input.lengths, sequences, ends);
  });
}

std::vector<Tuning> infinipipe_tunings(const BaselineInput& input) {
  std::vector<Tuning> chunks{Tuning{}};
  const std::int32_t published = published_infinipipe_chunks(input);
  for (std::int32_t count = 1; count <= kMostSlices; count *= 2)
    if (count != published) chunks.push_back({.slices = count, .tails = true});
  if (input.replicas() == 1 || input.lengths.size() <= 1) return chunks;
  return varied(chunks, &Tuning::dealing, {Dealing::kPublished, Dealing::kByTime});
}

}  // namespace slimpack
