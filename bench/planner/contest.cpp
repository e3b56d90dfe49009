#include "bench/planner/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/planner/lengths.h"
#include "slimpack/base/human.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/solver/step_bound.h"

namespace slimpack::bench {
namespace {

constexpr double kMemoryGain = 1.03;
constexpr double kNearly = 0.95;

/// The share of all ranks' time that MicroPacks and slices cost by themselves.
double overhead_share(const RatedPlan& step, const Costs& known) {
  const StageTable table = stage_table(known, step);
  double overhead = 0;
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : replica.packs.of(pass))
        for (std::int32_t s = 0; s < table.layout().stages(); ++s) {
          const PackCost stage = table.stage(StageId(s), pass, pack.replicas);
          overhead += stage.per_pack + stage.per_slice * static_cast<double>(pack.slices.size());
        }
  const auto ranks = static_cast<double>(step.prediction.busy.size());
  return overhead / (ranks * static_cast<double>(step.prediction.makespan.count()));
}

/// Whether the longest document alone takes nearly as long as the bound of all.
bool chain_binds(const StepJob& job, Nanos bound) {
  const SequenceLengths longest{*std::ranges::max_element(job.lengths)};
  const Nanos alone = step_lower_bound({cheapest_table(job.cost, job.job, job.choices.recompute),
                                        longest,
                                        {.most_merged = job.choices.most_merged,
                                         .granularity = job.choices.granularity,
                                         .memory_cap = job.job.memory_cap}});
  return to_seconds(alone) > kNearly * to_seconds(bound);
}

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

std::optional<Contender> fsdp_contender(std::string_view model, const Grid& grid,
                                        const SequenceLengths& lengths, Tokens context) {
  Costs shared = grid_cost(model, grid);
  shared.zero = 3;
  std::optional<StepJob> job = grid_job(shared, grid, lengths, context);
  if (!job) return std::nullopt;
  job->cost.zero = 1;  // the memory is that of shared weights, the time that of own ones
  std::optional<Contender> best;
  for (const char* packer : {"first-fit", "best-fit"}) {
    Contender one = contender_of(rated(baseline_named(packer), *job), *job);
    one.planner = fmt::format("fsdp, {}", packer);
    if (one.fits && (!best || one.makespan < best->makespan)) best = std::move(one);
  }
  return best;
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

SequenceLengths list_lengths(std::string_view list, const BenchOptions& options, std::size_t count,
                             Tokens context) {
  if (list == "real") return real_lengths(options.lengths, count, context);
  if (list == "Pareto") return pareto_lengths(1, count, context);
  return log_normal_lengths(1, count, context);
}

}  // namespace slimpack::bench
