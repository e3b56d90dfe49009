#include "bench/planner/contest.h"

#include "bench/planner/workloads.h"
#include "slimpack/planner/baseline_step.h"

namespace slimpack::bench {
namespace {

Contender contender_of(const RatedStep& rated, const StepJob& job) {
  Contender out;
  out.planner = rated.planner;
  out.tuning = rated.tuning;
  out.planning_seconds = rated.planning_seconds;
  if (!rated.step) return out;
  out.recompute = describe(rated.step->plan.recompute);
  out.adopted = rated.step->baseline;
  out.fits = rated.figures.peak <= *job.job.memory_cap;
  out.makespan = rated.figures.makespan;
  out.bubble = rated.figures.bubble;
  out.merged = most_merged(rated.step->plan);
  return out;
}

}  // namespace

const Contender* Contest::best_other() const {
  const Contender* best = nullptr;
  for (const Contender& other : others)
    if (other.fits && (best == nullptr || other.makespan < best->makespan)) best = &other;
  return best;
}

double Contest::speedup() const {
  const Contender* best = best_other();
  if (best == nullptr || !ours.fits) return 0;
  return to_seconds(best->makespan) / to_seconds(ours.makespan);
}

int Contest::behind() const {
  int faster = 0;
  for (const Contender& other : others)
    if (other.fits && (!ours.fits || other.makespan < ours.makespan)) ++faster;
  return faster;
}

Contest contest(const StepJob& job, RatedStep* ours) {
  Contest out;
  RatedStep own = rated(job);
  out.ours = contender_of(own, job);
  for (const Baseline& baseline : baselines())
    out.others.push_back(contender_of(rated(baseline, job), job));
  if (ours != nullptr) *ours = std::move(own);
  return out;
}

nlohmann::json to_json(const Contender& contender) {
  return {{"planner", contender.planner},
          {"tuning", contender.tuning},
          {"recompute", contender.recompute},
          {"adopted", contender.adopted},
          {"fits", contender.fits},
          {"makespan_ns", contender.makespan.count()},
          {"bubble", contender.bubble},
          {"cp", contender.merged},
          {"planning_seconds", contender.planning_seconds}};
}

SequenceLengths list_lengths(std::string_view list, const BenchOptions& options, std::size_t count,
                             Tokens context) {
  if (list == "real") return real_lengths(options.lengths, count, context);
  if (list == "Pareto") return pareto_lengths(1, count, context);
  return log_normal_lengths(1, count, context);
}

}  // namespace slimpack::bench
