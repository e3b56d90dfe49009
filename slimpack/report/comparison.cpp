#include "slimpack/report/comparison.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/known_error.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

constexpr const char* kOurs = "slimpack";

nlohmann::json job_figures(const Job& job, const Choices& choices, const Costs& cost) {
  nlohmann::json recompute = nlohmann::json::array();
  for (const Recompute allowed : choices.recompute) recompute.push_back(to_string(allowed));
  nlohmann::json figures{{"pp", job.layout.ranks()},
                         {"dp", job.replicas},
                         {"tp", cost.tp},
                         {"memory_cap_bytes", nullptr},
                         {"context", job.context.count()},
                         {"granularity", choices.granularity.count()},
                         {"recompute", std::move(recompute)}};
  if (job.memory_cap) figures["memory_cap_bytes"] = job.memory_cap->count();
  return figures;
}

std::string mark(Bytes peak, const std::optional<Bytes>& cap) {
  return cap && peak > *cap ? human_bytes(peak) + " !" : human_bytes(peak);
}

/// Compares our step with the fastest other one within the cap. Empty if one of the two is missing.
std::string conclusion(const std::vector<ComparedPlanner>& planners,
                       const std::optional<Bytes>& cap) {
  std::vector<PlannerTime> times;
  for (const ComparedPlanner& planner : planners)
    if (fits(planner, cap))
      times.push_back({planner.planner, to_seconds(planner.figures->makespan)});
  const std::optional<SpeedUp> speed_up = our_speed_up(times);
  if (!speed_up) return "";
  const bool alike = std::abs(speed_up->times - 1) < kSameTime;
  return fmt::format("\nslimpack trains {}as fast as {}, the fastest other{}\n",
                     alike ? "" : fmt::format("{:.2f} times ", speed_up->times), speed_up->other,
                     cap ? " within the memory cap" : "");
}

/// The planners with one bound for all that keep the cap.
std::vector<ComparedPlanner> on_one_bound(std::vector<ComparedPlanner> planners,
                                          const std::optional<Bytes>& cap) {
  std::optional<Nanos> least;
  for (const ComparedPlanner& planner : planners)
    if (fits(planner, cap))
      least = std::min(least.value_or(planner.figures->bound), planner.figures->bound);
  for (ComparedPlanner& planner : planners) {
    if (!planner.figures || !least || planner.figures->bound <= *least) continue;
    planner.figures->bound = *least;
    planner.figures->gap = to_seconds(planner.figures->makespan) / to_seconds(*least) - 1;
  }
  return planners;
}

std::string stages_text(std::int32_t stages_per_rank) {
  return fmt::format("{} stages a rank", stages_per_rank);
}

std::string published_text(const ComparedPlanner& planner, const std::optional<Bytes>& cap) {
  if (!planner.published) return "needs " + human_bytes(planner.published_peak);
  const char* above = cap && planner.published_peak > *cap ? " !" : "";
  return human_duration(*planner.published) + above;
}

/// How the baselines are tuned, and how many stages our ranks have if they have several. Empty
/// without any.
std::string tuning_text(const std::vector<ComparedPlanner>& planners,
                        const std::optional<Bytes>& cap, int columns) {
  Table table({{"tuned", Align::kLeft}, {"as published"}, {"best with", Align::kLeft}});
  bool any = false;
  for (const ComparedPlanner& planner : planners) {
    if (planner.planner == kOurs && planner.stages_per_rank > 1)
      table.add_row({kOurs, "", stages_text(planner.stages_per_rank)});
    if (planner.tuning.empty()) continue;
    any = true;
    table.add_row({planner.planner, published_text(planner, cap), planner.tuning});
  }
  return any ? "\n" + table.text(columns) : "";
}

/// The job with one stage on each rank.
Job on_single_stages(Job job, const SequenceLengths& lengths, const Costs& cost) {
  if (job.layout.placement.stages_per_rank() > 1)
    job.layout =
        balanced_layout(cost, lengths, job.layout.ranks(), 1, job.layout.spread_vocabulary);
  return job;
}

/// Keeps the step if it is the first, or better: within the cap, then shorter.
bool keep_better(ComparedPlanner& out, const RatedPlan& step, const Job& job, const Costs& cost) {
  ComparedPlanner next{out.planner, figures_of(step, cost), "", Nanos(0)};
  const auto rank = [&](const ComparedPlanner& planner) {
    return std::pair(!fits(planner, job.memory_cap), planner.figures->makespan);
  };
  if (out.figures && rank(next) >= rank(out)) return false;
  out.figures = next.figures;
  out.stages_per_rank = job.layout.placement.stages_per_rank();
  return true;
}

void compare_ours(ComparedPlanner& out, std::span<const Job> jobs, const SequenceLengths& lengths,
                  const Choices& choices, const Costs& cost, const std::function<void()>& tick) {
  std::optional<Bytes> needed;
  for (const Job& job : jobs) {
    const PlanOutcome outcome = plan_step({job, lengths, choices, cost}, tick);
    if (outcome.step)
      keep_better(out, *outcome.step, job, cost);
    else
      needed =
          std::min(needed.value_or(outcome.does_not_fit->needed), outcome.does_not_fit->needed);
  }
  if (!out.figures) out.error = fmt::format("needs {}", human_bytes(*needed));
}

/// Keeps the best tuned step of the jobs.
void tune(ComparedPlanner& out, const Baseline& baseline, std::span<const Job> jobs,
          const SequenceLengths& lengths, const Choices& choices, const Costs& cost,
          const std::function<void()>& tick) {
  for (const Job& job : jobs) {
    const TunedStep tuned = tuned_baseline(baseline, {job, lengths, choices, cost}, tick);
    if (!keep_better(out, tuned.step, job, cost)) continue;
    out.tuning = describe(tuned.tuning);
    if (job.layout.placement.stages_per_rank() > 1)
      out.tuning += ", " + stages_text(job.layout.placement.stages_per_rank());
  }
}

/// Where no form of the baseline keeps the cap, it is tuned within the memory that its published
/// form needs, so that the table shows it at its best all the same.
void compare_baseline(ComparedPlanner& out, const Baseline& baseline, std::span<const Job> jobs,
                      const SequenceLengths& lengths, const Choices& choices, const Costs& cost,
                      const std::function<void()>& tick) {
  const Job single = on_single_stages(jobs.front(), lengths, cost);
  std::vector<Job> tried{single};
  const auto runs = [&](const Job& job) { return baseline.traits.runs(job.layout.placement); };
  if (baseline.traits.interleaves && std::ranges::all_of(jobs, runs))
    tried.assign(jobs.begin(), jobs.end());
  tune(out, baseline, tried, lengths, choices, cost, tick);
  const RatedPlan published = baseline_step(baseline, {single, lengths, choices, cost});
  out.published_peak = step_need(published, cost).bytes;
  if (keep_better(out, published, single, cost)) out.tuning = describe(Tuning{});
  const bool none_fits = !fits(out, single.memory_cap);
  if (none_fits) {
    for (Job& job : tried) job.memory_cap = out.published_peak;
    tune(out, baseline, tried, lengths, choices, cost, tick);
  }
  // A step that keeps the cap is not compared with one that has more memory.
  if (!single.memory_cap || out.published_peak <= *single.memory_cap || none_fits)
    out.published = published.prediction.makespan;
}

}  // namespace

PredictedFigures figures_of(const RatedPlan& step, const Costs& cost) {
  PredictedFigures figures;
  const SimulationResult& predicted = step.prediction;
  const double seconds = to_seconds(predicted.makespan);
  figures.tokens_per_second =
      static_cast<double>(total_tokens(step.plan.lengths).count()) / seconds;
  figures.mfu = mfu_of(model_flops(cost, step.plan.lengths), predicted.makespan,
                       std::ssize(predicted.busy) * cost.tp, cost.device.peak_flops);
  figures.bubble = predicted.bubble_ratio;
  figures.makespan = predicted.makespan;
  figures.peak = step_need(step, cost).bytes;
  figures.bound = step.lower_bound;
  figures.gap = step.gap();
  return figures;
}

bool fits(const ComparedPlanner& planner, const std::optional<Bytes>& cap) {
  return planner.figures && (!cap || planner.figures->peak <= *cap);
}

std::vector<std::string> planner_names() {
  std::vector<std::string> names{kOurs};
  for (const Baseline& baseline : baselines()) names.emplace_back(baseline.name);
  return names;
}

std::optional<SpeedUp> our_speed_up(const std::vector<PlannerTime>& times) {
  const PlannerTime* ours = nullptr;
  const PlannerTime* best = nullptr;
  for (const PlannerTime& one : times) {
    if (one.planner == kOurs)
      ours = &one;
    else if (best == nullptr || one.time < best->time)
      best = &one;
  }
  if (ours == nullptr || best == nullptr) return std::nullopt;
  return SpeedUp{best->time / ours->time, best->planner};
}

ComparedPlanner compared(const std::string& planner, std::span<const Job> jobs,
                         const SequenceLengths& lengths, const Choices& choices, const Costs& cost,
                         const std::function<void()>& tick) {
  ComparedPlanner out{planner, std::nullopt, "", Nanos(0)};
  const Nanos start = monotonic_now();
  if (planner == kOurs) {
    compare_ours(out, jobs, lengths, choices, cost, tick);
    out.planning = monotonic_now() - start;
    return out;
  }
  const Baseline& baseline = baseline_named(planner);
  compare_baseline(out, baseline, jobs, lengths, choices, cost, tick);
  out.planning = monotonic_now() - start;
  return out;
}

RatedPlan published_step(const Baseline& baseline, const Job& job, const SequenceLengths& lengths,
                         const Choices& choices, const Costs& cost) {
  return baseline_step(baseline, {on_single_stages(job, lengths, cost), lengths, choices, cost});
}

std::string costs_text(const Costs& cost) {
  return fmt::format("costs from {}; known error: {}", cost.origin.source,
                     describe(known_error(cost)));
}

std::string comparison_text(const std::vector<ComparedPlanner>& planners,
                            const std::optional<Bytes>& cap, int columns) {
  Table table({{"planner", Align::kLeft},
               {"tokens/s"},
               {"MFU", Align::kRight, 2},
               {"bubble"},
               {"step"},
               {"peak activation"},
               {"planned in", Align::kRight, 3},
               {"gap", Align::kRight, 1}});
  bool marked = false;
  for (const ComparedPlanner& planner : on_one_bound(planners, cap)) {
    const std::string planning = human_duration(planner.planning);
    if (!planner.figures) {
      table.add_row({planner.planner, "", "", "", "", planner.error, planning, ""});
      continue;
    }
    const PredictedFigures& f = *planner.figures;
    marked |= cap && f.peak > *cap;
    table.add_row({planner.planner, human_count(f.tokens_per_second),
                   f.mfu ? human_share(*f.mfu) : "", human_share(f.bubble),
                   human_duration(f.makespan), mark(f.peak, cap), planning, human_share(f.gap)});
  }
  std::string text = table.text(columns);
  text += tuning_text(planners, cap, columns);
  if (marked) text += fmt::format("\n! above the memory cap of {}\n", human_bytes(*cap));
  return text + folded(conclusion(planners, cap), columns);
}

std::vector<RunSpeed> run_speeds(const std::vector<ComparedPlanner>& planners,
                                 const std::optional<Bytes>& cap) {
  std::vector<RunSpeed> runs;
  for (const ComparedPlanner& planner : planners) {
    if (!fits(planner, cap)) continue;
    const PredictedFigures& figures = *planner.figures;
    runs.push_back({planner.planner, figures.tokens_per_second});
    const bool fits_published = planner.published && (!cap || planner.published_peak <= *cap);
    if (planner.planner == packed_baseline().name && fits_published)
      runs.push_back({planner.planner + " as published", figures.tokens_per_second *
                                                             to_seconds(figures.makespan) /
                                                             to_seconds(*planner.published)});
  }
  return fastest_behind_first(std::move(runs));
}

nlohmann::json to_json(const ComparedPlanner& planner) {
  nlohmann::json one{{"planner", planner.planner},
                     {"planning_seconds", to_seconds(planner.planning)},
                     {"stages_per_rank", planner.stages_per_rank},
                     {"error", nullptr}};
  for (const char* figure :
       {"tokens_per_second", "mfu", "bubble", "makespan_ns", "peak_bytes", "gap"})
    one[figure] = nullptr;
  if (!planner.tuning.empty()) {
    one["tuning"] = planner.tuning;
    if (planner.published) one["published_makespan_ns"] = planner.published->count();
    one["published_peak_bytes"] = planner.published_peak.count();
  }
  if (!planner.figures) {
    one["error"] = planner.error;
    return one;
  }
  const PredictedFigures& f = *planner.figures;
  one["tokens_per_second"] = f.tokens_per_second;
  if (f.mfu) one["mfu"] = *f.mfu;
  one["bubble"] = f.bubble;
  one["makespan_ns"] = f.makespan.count();
  one["peak_bytes"] = f.peak.count();
  one["gap"] = f.gap;
  return one;
}

nlohmann::json comparison_json(const std::vector<ComparedPlanner>& planners,
                               const std::string& name, const Job& job, const Choices& choices,
                               const Costs& cost) {
  nlohmann::json cases = nlohmann::json::array();
  for (const ComparedPlanner& planner : on_one_bound(planners, job.memory_cap)) {
    cases.push_back(to_json(planner));
    cases.back()["name"] = name;
    cases.back()["fits"] = fits(planner, job.memory_cap);
  }
  nlohmann::json figures = job_figures(job, choices, cost);
  figures["known_error"] = to_json(known_error(cost));
  figures["format"] = "slimpack-comparison";
  figures["version"] = 1;
  figures["cases"] = std::move(cases);
  return figures;
}

}  // namespace slimpack
