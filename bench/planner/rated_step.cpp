#include "bench/planner/rated_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "bench/planner/report.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/progress.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack::bench {

StepFigures figures_of(const RatedPlan& step, const Costs& cost) {
  StepFigures f;
  const SimulationResult& p = step.prediction;
  f.makespan = p.makespan;
  f.lower_bound = step.lower_bound;
  f.bubble = p.bubble_ratio;
  f.worst_bubble = 1 - to_seconds(*std::ranges::min_element(p.busy)) / to_seconds(p.makespan);
  f.gap = step.gap();
  f.peak = step_need(step, cost).bytes;
  for (const ReplicaPlan& replica : step.plan.replicas) {
    f.forward_packs = std::max(f.forward_packs, replica.packs.forward.size());
    f.backward_packs = std::max(f.backward_packs, replica.packs.backward.size());
    for (const auto* pass : {&replica.packs.forward, &replica.packs.backward})
      f.merged_packs += static_cast<std::size_t>(
          std::ranges::count_if(*pass, [](const MicroPack& pack) { return pack.replicas > 1; }));
  }
  return f;
}

RatedStep rated(const StepJob& step, int repetitions) {
  RatedStep out;
  out.planner = "slimpack";
  std::vector<double> seconds, processor;
  PlanOutcome outcome;
  for (int r = 0; r < repetitions; ++r) {
    const Nanos start = monotonic_now();
    const std::clock_t processor_start = std::clock();
    outcome = plan_step({step.job, step.lengths, step.choices, step.cost});
    processor.push_back(static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC);
    seconds.push_back(to_seconds(monotonic_now() - start));
  }
  out.processor_seconds = std::ranges::min(processor);
  out.planning_seconds = median(seconds);
  out.best_planning_seconds = std::ranges::min(seconds);
  if (outcome.step) {
    out.figures = figures_of(*outcome.step, step.cost);
    out.step = std::move(outcome.step);
  } else {
    out.error = fmt::format("needs {}", human_bytes(outcome.does_not_fit->needed));
  }
  return out;
}

RatedStep rated(const Baseline& baseline, const StepJob& step) {
  RatedStep out;
  out.planner = baseline.name;
  const Nanos start = monotonic_now();
  TunedStep tuned = tuned_baseline(baseline, {step.job, step.lengths, step.choices, step.cost});
  out.step = std::move(tuned.step);
  out.tuning = describe(tuned.tuning);
  out.planning_seconds = out.best_planning_seconds = to_seconds(monotonic_now() - start);
  out.figures = figures_of(*out.step, step.cost);
  return out;
}

std::vector<std::string> violations(const RatedPlan& step, const Costs& cost,
                                    const std::optional<Bytes>& cap) {
  std::vector<std::string> lines = check_plan(step.plan);
  if (!lines.empty()) return lines;  // the other checks require a correct plan
  lines = check_step(step.plan, step.schedules);
  if (!lines.empty() || !cap) return lines;
  const Bytes need = step_need(step, cost).bytes;
  if (need > *cap)
    lines.push_back(
        fmt::format("{} on a rank, the cap is {}", human_bytes(need), human_bytes(*cap)));
  return lines;
}

nlohmann::json to_json(const RatedStep& rated) {
  if (!rated.step) return {{"error", rated.error}, {"planning_seconds", rated.planning_seconds}};
  const StepFigures& f = rated.figures;
  return {{"tuning", rated.tuning},
          {"bubble", f.bubble},
          {"worst_bubble", f.worst_bubble},
          {"peak_bytes", f.peak.count()},
          {"makespan_ns", f.makespan.count()},
          {"lower_bound_ns", f.lower_bound.count()},
          {"gap", f.gap},
          {"planning_seconds", rated.planning_seconds},
          {"forward_micropacks", f.forward_packs},
          {"backward_micropacks", f.backward_packs},
          {"merged_micropacks", f.merged_packs}};
}

}  // namespace slimpack::bench
