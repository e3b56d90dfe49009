#include "slimpack/planner/sweep.h"

#include <algorithm>
#include <iterator>

#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

/// The overhead of all replicas together.
Nanos overhead_of(const RatedPlan& step, const Costs& cost) {
  const StageTable table = stage_table(cost, step);
  Nanos sum;
  for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
    sum += table.overhead_time(step.plan.replicas[r].packs, ReplicaId(r));
  return sum;
}

}  // namespace

double SweepFigures::rank_speed() const {
  return static_cast<double>(tokens.count()) /
         (to_seconds(times().makespan) * static_cast<double>(ranks));
}

std::vector<std::vector<std::size_t>> combinations(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::size_t>> all{{}};
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::size_t>> longer;
    for (const std::vector<std::size_t>& begun : all)
      for (std::size_t v = 0; v < axis.values.size(); ++v) {
        longer.push_back(begun);
        longer.back().push_back(v);
      }
    all = std::move(longer);
  }
  return all;
}

SweepFigures sweep_figures(const RatedPlan& step, const Costs& cost) {
  SweepFigures figures;
  figures.tokens = total_tokens(step.plan.lengths);
  const SimulationResult& predicted = step.prediction;
  figures.predicted = {predicted.makespan, predicted.bubble_ratio, step_need(step, cost).bytes};
  figures.ranks = std::ssize(predicted.busy) * cost.tp;
  figures.mfu = mfu_of(model_flops(cost, step.plan.lengths), predicted.makespan, figures.ranks,
                       cost.device.peak_flops);
  for (const ReplicaPlan& replica : step.plan.replicas) {
    const PackPlan& packs = replica.packs;
    figures.forward_packs = std::max(figures.forward_packs, packs.forward.size());
    figures.backward_packs = std::max(figures.backward_packs, packs.backward.size());
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : packs.of(pass)) figures.slices += pack.slices.size();
  }
  Nanos busy;
  for (const Nanos rank : predicted.busy) busy += rank;
  if (busy > Nanos(0)) figures.overhead = to_seconds(overhead_of(step, cost)) / to_seconds(busy);
  return figures;
}

SweepFigures mean_figures(const std::vector<SweepFigures>& steps) {
  const auto count = std::ssize(steps);
  SweepFigures mean;
  double used = 0;  // shares of the peak, weighted by time
  for (const SweepFigures& step : steps) {
    used += step.mfu.value_or(0) * to_seconds(step.predicted.makespan);
    mean.tokens += step.tokens;
    mean.predicted.makespan += step.predicted.makespan;
    mean.predicted.bubble += step.predicted.bubble / static_cast<double>(count);
    mean.overhead += step.overhead / static_cast<double>(count);
    mean.slices += step.slices;
    mean.predicted.peak = std::max(mean.predicted.peak, step.predicted.peak);
    mean.forward_packs = std::max(mean.forward_packs, step.forward_packs);
    mean.backward_packs = std::max(mean.backward_packs, step.backward_packs);
  }
  if (steps.front().mfu) mean.mfu = used / to_seconds(mean.predicted.makespan);
  mean.tokens = mean.tokens / count;
  mean.ranks = steps.front().ranks;
  mean.predicted.makespan = mean.predicted.makespan / count;
  mean.slices /= steps.size();
  return mean;
}

}  // namespace slimpack
