// Baselines that cut best-fit packs into slices: of equal FLOPs (Seq1F1B), of equal tokens
// (SlimPipe).
#include <algorithm>
#include <cstddef>
#include <utility>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

/// As published, a pack has at least so many slices, and at least as many as there are ranks.
constexpr std::int32_t kLeastSlices = 4;

constexpr std::int32_t kSlices[] = {2, 4, 8, 16, 32, 64};

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

BaselinePlan sliced_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares,
                         const Weight& weight, std::int32_t ahead_per_stage) {
  const std::int32_t count = input.tuning.slices > 0
                                 ? input.tuning.slices
                                 : std::max(input.job.layout.ranks(), kLeastSlices);
  std::vector<PackPlan> replicas;
  for (const SequencePacks& own : shares) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& sequences : own) {
      const auto slices = cut_pack(whole_pack(input.lengths, sequences), weight, count);
      plan.forward.insert(plan.forward.end(), slices.begin(), slices.end());
      plan.backward.insert(plan.backward.end(), slices.rbegin(), slices.rend());
    }
  }
  return {.plan = step_of(input.job.layout, input.lengths, std::move(replicas)),
          .discipline = Discipline::kSlicedOneFOneB,
          .ahead_per_stage = ahead_per_stage,
          .split = input.tuning.split};
}

/// All numbers of slices from `least` on, the published one first.
std::vector<Tuning> sliced_tunings(const BaselineInput& input, std::int32_t least) {
  std::vector<std::int32_t> counts{0};
  for (const std::int32_t count : kSlices)
    if (count >= least && count != std::max(input.job.layout.ranks(), kLeastSlices))
      counts.push_back(count);
  return varied(dealt_tunings(input, pack_tunings(input)), &Tuning::slices, counts);
}

}  // namespace

BaselinePlan seq1f1b_plan(const BaselineInput& input, const std::vector<SequencePacks>& shares) {
  Weight weight{0, 0};
  for (std::int32_t s = 0; s < input.job.layout.stages(); ++s) {
    const PackCost stage = stage_cost(input.cost, input.job.layout, StageId(s), Pass::kForward);
    weight.per_token += stage.per_token;
    weight.per_pair += stage.per_pair;
    weight.per_window_pair += stage.per_window_pair;
    weight.window = std::max(weight.window, stage.window);
  }
  return sliced_plan(input, shares, weight, input.job.layout.stages_per_rank > 1 ? 2 : 1);
}

std::vector<Tuning> seq1f1b_tunings(const BaselineInput& input) {
  const std::vector<Tuning> whole = sliced_tunings(input, 2);
  if (input.cost.weight_gradient == EdgeTime() || input.job.layout.stages_per_rank > 1)
    return whole;
  return varied(whole, &Tuning::split, {false, true});
}

BaselinePlan uniform_slices_plan(const BaselineInput& input,
                                 const std::vector<SequencePacks>& shares) {
  return sliced_plan(input, shares, Weight{}, 2);
}

std::vector<Tuning> uniform_slices_tunings(const BaselineInput& input) {
  return sliced_tunings(input, input.job.layout.ranks());
}

}  // namespace slimpack
