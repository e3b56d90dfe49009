#include "slimpack/planner/paying_merge.h"

#include <algorithm>
#include <limits>

#include "slimpack/cost/stage_table.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostSlices = 64;

/// Nanoseconds of all slices on one stage, and of the longest again on each of the others.
double through(const PackCost& stage, const MergedDocument& document, std::int64_t slices) {
  double sum = 0, longest = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const auto cut = [&](std::int64_t at) { return Tokens(document.length.count() * at / slices); };
    const double time = stage.per_pack + stage(Slice{SequenceId(), cut(i), cut(i + 1)});
    sum += time;
    longest = std::max(longest, time);
  }
  return sum + (document.pipeline_ranks - 1) * longest;
}

double soonest(const StageTable& all_layers, const MergedDocument& document, std::int32_t group) {
  const StageId all(std::int32_t{0});
  const double share = 1.0 / document.pipeline_ranks;
  const PackCost forward = share * all_layers.stage(all, Pass::kForward, group);
  const PackCost backward = share * all_layers.stage(all, Pass::kBackward, group);
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t slices = 1; slices <= std::min(kMostSlices, document.length.count());
       slices *= 2)
    best = std::min(best, through(forward, document, slices) + through(backward, document, slices));
  return best;
}

}  // namespace

std::int32_t paying_merge(const Costs& cost, std::span<const Recompute> recomputations,
                          const MergedDocument& document, std::int32_t most) {
  std::int32_t largest = 1;
  const auto layers = static_cast<std::int32_t>(cost.shape.num_layers());
  for (const Recompute recompute : recomputations) {
    const StageTable table =
        stage_table(cost, StageLayout{{0, layers}},
                    RecomputeByLayer(static_cast<std::size_t>(layers), recompute));
    std::int32_t best = 1;
    double least = soonest(table, document, best);
    for (std::int32_t group = 2; group <= most; group *= 2)
      if (const double time = soonest(table, document, group); time < least) {
        least = time;
        best = group;
      }
    largest = std::max(largest, best);
  }
  return largest;
}

}  // namespace slimpack
