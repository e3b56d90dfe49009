// Baselines that cut best-fit packs into slices: Seq1F1B (equal FLOPs) and SlimPipe (equal tokens).
#include <algorithm>
#include <cstddef>
#include <utility>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/baselines/step_builder.h"

namespace slimpack {
namespace {

/// A pack has at least so many slices, and at least as many as there are stages.
constexpr std::int32_t kLeastSlices = 4;

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

BaselinePlan sliced_packing(const Job& job, const SequenceLengths& lengths, const Weight& weight,
                            std::int32_t ahead_per_stage) {
  const std::int32_t count = std::max(job.layout.stages(), kLeastSlices);
  const auto packs =
      pack_sequences(lengths, all_sequences(lengths), job.context, Packing::kBestFit);
  std::vector<PackPlan> replicas;
  for (const auto& own : deal(packs, job.replicas)) {
    PackPlan& plan = replicas.emplace_back();
    for (const auto& sequences : own) {
      const auto slices = cut_pack(whole_pack(lengths, sequences), weight, count);
      plan.forward.insert(plan.forward.end(), slices.begin(), slices.end());
      plan.backward.insert(plan.backward.end(), slices.rbegin(), slices.rend());
    }
  }
  return {.plan = step_of(job.layout, lengths, std::move(replicas)),
          .discipline = Discipline::kSlicedOneFOneB,
          .ahead_per_stage = ahead_per_stage};
}

}  // namespace

BaselinePlan seq1f1b_baseline(const Job& job, const SequenceLengths& lengths,
                              const RecomputingCosts& cost) {
  Weight weight{0, 0};
  for (std::int32_t s = 0; s < job.layout.stages(); ++s) {
    const PackCost stage = stage_cost(cost, job.layout, StageId(s), Pass::kForward);
    weight.per_token += stage.per_token;
    weight.per_pair += stage.per_pair;
    weight.per_window_pair += stage.per_window_pair;
    weight.window = std::max(weight.window, stage.window);
  }
  return sliced_packing(job, lengths, weight, 1);
}

BaselinePlan slimpipe_baseline(const Job& job, const SequenceLengths& lengths,
                               const RecomputingCosts& /*cost*/) {
  return sliced_packing(job, lengths, Weight{}, 2);
}

}  // namespace slimpack
