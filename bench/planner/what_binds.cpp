#include "bench/planner/what_binds.h"

#include <fmt/format.h>

#include <algorithm>

#include "slimpack/base/human.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack::bench {
namespace {

constexpr double kMemoryGain = 1.03;
constexpr double kNearly = 0.95;

/// What MicroPacks and slices cost by themselves, as a share of all ranks' time.
double overhead_share(const RatedPlan& step, const Costs& known) {
  const RecomputingCosts cost = with_recompute(known, step.plan.recompute);
  const StageLayout& layout = step.plan.layout;
  double overhead = 0;
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : replica.packs.of(pass))
        for (std::int32_t s = 0; s < layout.stages(); ++s) {
          const PackCost stage = stage_cost(cost, layout, StageId(s), pass, pack.replicas);
          overhead += stage.per_pack + stage.per_slice * static_cast<double>(pack.slices.size());
        }
  const auto ranks = static_cast<double>(step.prediction.busy.size());
  return overhead / (ranks * static_cast<double>(step.prediction.makespan.count()));
}

/// Whether the longest document alone takes nearly as long as the bound of all.
bool chain_binds(const StepJob& job, Nanos bound) {
  const SequenceLengths longest{*std::ranges::max_element(job.lengths)};
  const Nanos alone =
      step_lower_bound(job.job, longest, cheapest_cost(job.cost, job.choices.recompute),
                       {job.choices.most_merged, job.choices.granularity});
  return to_seconds(alone) > kNearly * to_seconds(bound);
}

}  // namespace

std::string what_binds(const StepJob& job, const RatedStep& ours, Nanos other) {
  const Nanos bound = ours.figures.lower_bound;
  if (to_seconds(other) < kClearlyFaster * to_seconds(bound))
    return chain_binds(job, bound) ? "longest document's chain" : "work";
  StepJob free = job;
  free.job.memory_cap.reset();
  const RatedStep roomy = rated(free);
  if (to_seconds(ours.figures.makespan) > kMemoryGain * to_seconds(roomy.figures.makespan))
    return fmt::format("memory ({:.2f} × as fast without a cap)",
                       to_seconds(ours.figures.makespan) / to_seconds(roomy.figures.makespan));
  const double overhead = overhead_share(*ours.step, job.cost);
  if (overhead > ours.figures.bubble) return "overheads (" + human_share(overhead) + ")";
  return "fill and drain (" + human_share(ours.figures.bubble) + ")";
}

}  // namespace slimpack::bench
