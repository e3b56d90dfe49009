#include "slimpack/planner/baseline_step.h"

#include <algorithm>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/planner/baseline_bounds.h"
#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/require_sensible.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack {
namespace {

TunedStep best_step(const Baseline& baseline, const StepQuestion& question, bool tuned,
                    const std::function<void()>& tick) {
  const auto& [job, lengths, choices, known] = question;
  require_sensible(question);
  require_packable(job.context, job.replicas, lengths);
  Costs cost = known;
  if (choices.backward == BackwardKind::kWhole) cost.kinds.front().weight_gradient = {};
  const StepQuestion asked{job, lengths, choices, cost};
  const Abilities able = abilities(cost);
  BaselineRequest request = all_baselines(asked);
  request.baselines = std::span(&baseline, 1);
  request.tuned = tuned;
  request.tick = tick;
  request.most_merged = largest_group(job.replicas, able.largest_merge);
  request.exchange_context = able.exchanges_attention;
  if (!tuned)
    std::erase_if(request.recomputations, [](const RecomputeChoice& one) { return one.mixed; });
  BaselineSearchResult found = search_baselines(request);
  SLIMPACK_CHECK(found.step || found.leanest);
  const bool above_cap = !found.step;
  TunedStep out{found.step ? std::move(*found.step) : std::move(*found.leanest), found.tuning};
  out.step.baseline = {};
  CutLimits limits{std::max(choices.most_merged, most_merged(out.step.plan)),
                   cut_unit(out.step.plan, choices.granularity), choices.recompute,
                   choices.exchange_context || has_exchanges(out.step)};
  // A bound of plans that keep the cap holds of none above it.
  if (!above_cap) limits.memory_cap = job.memory_cap;
  out.step.lower_bound = step_lower_bound({bounding_table(out.step.plan, asked), lengths, limits});
  return out;
}

}  // namespace

StageTable bounding_table(const StepPlan& plan, const StepQuestion& question) {
  StageTable cheapest = cheapest_table(question.cost, question.job, question.choices.recompute);
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      if (!pack.row_zones.empty()) return cheapest.with_free_sharing();
  return cheapest;
}

Tokens cut_unit(const StepPlan& plan, Tokens granularity) {
  for (const ReplicaPlan& replica : plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& slice : pack.slices)
        if (slice.length() < plan.lengths[slice.sequence.index()]) return Tokens(1);
  return granularity;
}

RatedPlan baseline_step(const Baseline& baseline, const StepQuestion& question) {
  return best_step(baseline, question, false, nullptr).step;
}

TunedStep tuned_baseline(const Baseline& baseline, const StepQuestion& question,
                         const std::function<void()>& tick) {
  return best_step(baseline, question, true, tick);
}

}  // namespace slimpack
