// Baselines that cut packs into slices: of equal FLOPs (Seq1F1B), of equal tokens (SlimPipe).
#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/packed_tails.h"

namespace slimpack {
namespace {

/// By the published settings a pack has at least this many slices, and at least one for each rank.
constexpr std::int32_t kLeastSlices = 4;
/// Tunings try at most this many slices, or one for each rank where there are more ranks.
constexpr std::int32_t kMostSlices = 64;

/// The quantity that is equal for all slices of a pack: FLOPs or tokens.
struct Weight {
  double per_token = 1;
  double per_pair = 0;
  double per_window_pair = 0;
  Tokens window{0};  ///< 0 = no layer has one

  [[nodiscard]] double operator()(const Slice& slice) const {
    return per_token * static_cast<double>(slice.length().count()) +
           per_pair * slice.causal_pairs() +
           (window > Tokens(0) ? per_window_pair * slice.window_pairs(window) : 0);
  }
};

/// The least position in (begin, end] of the sequence at which the weight from `begin` on reaches
/// `weight`; `end` if it never does.
Tokens cut_at(const Weight& weight_of, const Slice& rest, double weight) {
  std::int64_t low = rest.begin.count() + 1;
  std::int64_t high = rest.end.count();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (weight_of(Slice{rest.sequence, rest.begin, Tokens(middle)}) >= weight)
      high = middle;
    else
      low = middle + 1;
  }
  return Tokens(low);
}

/// `count` MicroPacks of equal weight along the pack, up to one token each. A pack with too few
/// tokens gives fewer.
std::vector<MicroPack> cut_pack(const MicroPack& pack, const Weight& weight_of,
                                std::int32_t count) {
  double total = 0;
  for (const Slice& slice : pack.slices) total += weight_of(slice);
  std::vector<MicroPack> out(1);
  double before = 0;  // weight of everything cut so far
  std::int32_t cuts = 0;
  for (Slice rest : pack.slices) {
    while (rest.begin < rest.end) {
      const double target = total * (cuts + 1) / count;
      Slice taken = rest;
      const bool last = cuts + 1 == count;
      if (!last && before + weight_of(rest) >= target)
        taken.end = cut_at(weight_of, rest, target - before);
      before += weight_of(taken);
      rest.begin = taken.end;
      out.back().slices.push_back(taken);
      while (cuts + 1 < count && before >= total * (cuts + 1) / count) ++cuts;
      if (!last && before >= target) out.emplace_back();
    }
  }
  if (out.back().slices.empty()) out.pop_back();
  return out;
}

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
  Weight weight{0, 0};
  for (std::int32_t s = 0; s < input.layout().stages(); ++s) {
    const PackCost stage = input.table.stage(StageId(s), Pass::kForward);
    weight.per_token += stage.per_token;
    weight.per_pair += stage.per_pair;
    weight.per_window_pair += stage.per_window_pair;
    weight.window = std::max(weight.window, stage.window);
  }
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
  const Tokens slice = full_slice(input);
  return sliced_plan(input, shares, 2, [&](const std::vector<SequenceId>& sequences) {
    return input.tuning.tails ? group_slices(input.lengths, sequences, slice)
                              : cut_pack(whole_pack(input.lengths, sequences), Weight{}, count);
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

}  // namespace slimpack
