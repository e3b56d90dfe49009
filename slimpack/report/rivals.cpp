#include "slimpack/report/rivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

Job job_of(const PlanFile& file, const PlanLimits& limits) {
  const StepPlan& plan = file.step.plan;
  const Tokens longest = *std::ranges::max_element(plan.lengths);
  return {.layout = plan.layout,
          .replicas = static_cast<std::int32_t>(plan.replicas.size()),
          .speed = file.step.speed,
          .memory_cap = limits.memory_cap,
          .context = std::max(limits.context, longest)};
}

Choices choices_within(const PlanLimits& limits) {
  Choices choices;
  choices.backward = limits.backward;
  choices.recompute = limits.recompute;
  choices.mixed_recompute = limits.mixed_recompute;
  return choices;
}

RatedPlan packed_rival(const PlanFile& file, const PlanLimits& limits) {
  return published_step(packed_baseline(), job_of(file, limits), file.step.plan.lengths,
                        choices_within(limits), file.cost);
}

std::vector<ComparedPlanner> rivals_of(const PlanFile& file, const PlanLimits& limits,
                                       const std::string& planner,
                                       const std::function<void()>& advance,
                                       const std::function<void()>& tick) {
  const std::array jobs{job_of(file, limits)};
  std::vector<ComparedPlanner> rows{{planner, figures_of(file.step, file.cost), "", Nanos(0)}};
  rows.front().stages_per_rank = file.step.plan.layout.placement.stages_per_rank();
  for (const Baseline& baseline : baselines()) {
    rows.push_back(compared(std::string(baseline.name), jobs, file.step.plan.lengths,
                            choices_within(limits), file.cost, tick));
    advance();
  }
  return rows;
}

nlohmann::ordered_json rivals_for_page(const std::vector<ComparedPlanner>& rows,
                                       const std::optional<Bytes>& cap) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ComparedPlanner& row : rows) {
    out.push_back(nlohmann::ordered_json(to_json(row)));
    out.back()["fits"] = fits(row, cap);
    out.back().erase("planning_seconds");  // the same files make the same page
  }
  return out;
}

namespace {

/// "12.3% longer", "1.2% shorter" or "as long".
std::string difference(Nanos time, Nanos other) {
  const double change = to_seconds(time) / to_seconds(other) - 1;
  if (std::abs(change) < kSameTime) return "as long";
  return fmt::format("{} {}", human_share(std::abs(change)), change > 0 ? "longer" : "shorter");
}

/// The verdict on turns that were measured.
std::string headline(const ComparedTurns& turns) {
  return fmt::format("{:.2f} × as fast as {}, measured by turns", turns.times_as_fast(),
                     turns.other.planner);
}

std::string waiting_text(const ComparedTurns& turns) {
  return fmt::format("Ranks wait {} of the step as planned, and {} {} (medians of {}). ",
                     human_share(median(turns.own.bubble)), human_share(median(turns.other.bubble)),
                     turns.other.planner,
                     counted(static_cast<std::int64_t>(turns.own.step.size()), "run"));
}

std::string headline(const ComparedPlanner& ours, const ComparedPlanner& rival, bool capped) {
  const double times = to_seconds(rival.figures->makespan) / to_seconds(ours.figures->makespan);
  std::string what = fmt::format("{:.2f} × as fast as", times);
  if (std::abs(times - 1) < kSameTime) what = "As fast as";
  if (times <= 1 - kSameTime) what = fmt::format("{} slower than", human_share(1 / times - 1));
  return fmt::format("{} {}, the fastest other planner{}", what, rival.planner,
                     capped ? " within the memory cap" : "");
}

std::string predicted_text(const PredictedFigures& ours, const ComparedPlanner* rival) {
  std::string text = fmt::format("Predicted: a step takes {}", human_duration(ours.makespan));
  if (rival != nullptr)
    text += fmt::format("; {} takes {} on the same ranks", rival->planner,
                        human_duration(rival->figures->makespan));
  text += fmt::format(". Ranks wait {} of the step", human_share(ours.bubble));
  if (ours.mfu) text += fmt::format("; MFU {}", human_share(*ours.mfu));
  return text + ".";
}

std::string measured_text(const MeasuredStep& measured, Nanos predicted) {
  const TimelineMetrics metrics = metrics_of(measured.timeline);
  const std::string beside = difference(metrics.makespan, predicted);
  return fmt::format(
      " Measured: the last step took {}, {} {} predicted, and ranks waited {} of it.",
      human_duration(metrics.makespan), beside, beside == "as long" ? "as" : "than",
      human_share(metrics.bubble_ratio));
}

}  // namespace

std::optional<std::size_t> best_rival(const std::vector<ComparedPlanner>& rows,
                                      const std::optional<Bytes>& cap) {
  std::optional<std::size_t> best;
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (fits(rows[i], cap) && (!best || rows[i].figures->makespan < rows[*best].figures->makespan))
      best = i;
  return best;
}

Verdict verdict_of(const ReportSource& source, const std::vector<ComparedPlanner>& rows) {
  const ComparedPlanner& ours = rows.front();
  const std::optional<Bytes> cap = source.limits().memory_cap;
  const std::optional<std::size_t> best = best_rival(rows, cap);
  const ComparedPlanner* rival = best ? &rows[*best] : nullptr;
  Verdict verdict{rival != nullptr ? headline(ours, *rival, cap.has_value())
                                   : "No other planner keeps the memory cap",
                  predicted_text(*ours.figures, rival)};
  if (!source.measured) return verdict;
  verdict.figures += measured_text(*source.measured, ours.figures->makespan);
  if (const auto& turns = source.measured->compared)
    verdict = {headline(*turns), waiting_text(*turns) + verdict.figures};
  return verdict;
}

}  // namespace slimpack
