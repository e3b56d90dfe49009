#include "slimpack/training/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

constexpr int kTurns = 3;

void add_turn(PlannerTurns& turns, const Timeline& timeline) {
  const TimelineMetrics metrics = metrics_of(timeline);
  turns.step.push_back(metrics.makespan);
  turns.bubble.push_back(metrics.bubble_ratio);
  for (const RankMetrics& rank : metrics.ranks)
    turns.peak_activation = std::max(turns.peak_activation, rank.peak_activation);
}

}  // namespace

ComparedTurns compare_by_turns(const CompletedStep& step, TrainingRun& run, const RunConfig& config,
                               const JobAgreement& agreement, TrainingListener& listener) {
  const bool virtual_time = agreement.alone() && config.train.device == DeviceKind::kCpu;
  const ReadyStep packed = run.planned_again(step.ready.batch, PlannerKind::kPacked);
  ComparedTurns turns;
  turns.clock = virtual_time ? ClockKind::kVirtual : ClockKind::kWall;
  turns.own.planner = to_string(config.plan.planner);
  turns.own.predicted_bubble = step.ready.planned.prediction.bubble_ratio;
  turns.other.planner = to_string(PlannerKind::kPacked);
  turns.other.predicted_bubble = packed.planned.prediction.bubble_ratio;
  for (int turn = 1; turn <= kTurns; ++turn) {
    agreement.require_no_stop();
    const StepResult sliced = run.rerun(step.ready, turns.clock);
    const StepResult whole = run.rerun(packed, turns.clock);
    if (!agreement.first()) continue;
    add_turn(turns.own, sliced.timeline);
    add_turn(turns.other, whole.timeline);
    listener.note("compare", fmt::format("turn {} of {}: sliced {}, packed {}", turn, kTurns,
                                         human_duration(turns.own.step.back()),
                                         human_duration(turns.other.step.back())));
  }
  return turns;
}

namespace {

/// The step of median speed: a slow step on a shared machine does not count.
const StepFigures& median_step(std::vector<StepFigures>& steps) {
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle, {}, &StepFigures::tokens_per_second);
  return *middle;
}

Table step_table(const StepFigures& f) {
  Table table({{"", Align::kLeft},
               {"step"},
               {"predicted"},
               {"bubble"},
               {"predicted", Align::kRight, 1},
               {"peak activations"},
               {"predicted", Align::kRight, 2},
               {"tokens/s"}});
  table.add_row({"median step", human_duration(f.step_time), human_duration(f.predicted_time),
                 human_share(f.bubble), human_share(f.predicted_bubble),
                 human_bytes(largest(f.peak_activation)),
                 human_bytes(largest(f.predicted_peak_activation)),
                 human_count(f.tokens_per_second())});
  return table;
}

std::string planning_text(const std::vector<StepFigures>& steps) {
  Nanos planning;
  Nanos waiting;
  for (const StepFigures& f : steps) {
    planning += f.planning_time;
    waiting += f.planning_wait;
  }
  if (waiting == Nanos(0))
    return fmt::format("planning took {}, and training never waited for it",
                       human_duration(planning));
  return fmt::format("planning took {}, of which training waited {} ({} of it for the first step)",
                     human_duration(planning), human_duration(waiting),
                     human_duration(steps.front().planning_wait));
}

/// A line for each held-out set: its first and its last loss.
std::string evaluations_text(const std::vector<EvaluationFigures>& evaluations) {
  std::string text;
  for (const EvaluationFigures& first : evaluations) {
    const std::string& name = first.result.name;
    if (first.step != evaluations.front().step) break;
    const auto last = std::ranges::find_if(
        evaluations.rbegin(), evaluations.rend(),
        [&](const EvaluationFigures& other) { return other.result.name == name; });
    text += fmt::format("evaluation loss{}{} {:.4f} → {:.4f}\n", name.empty() ? "" : " of ", name,
                        first.result.loss, last->result.loss);
  }
  return text;
}

}  // namespace

std::string summary_text(const RunSummary& summary, int columns) {
  const StepFigures& first = summary.steps.front();
  const StepFigures& last = summary.steps.back();
  std::vector<StepFigures> steps = summary.steps;
  std::string text = fmt::format("\nloss {:.4f} → {:.4f} in {}\n", first.loss, last.loss,
                                 counted(static_cast<std::int64_t>(summary.steps.size()), "step"));
  text += evaluations_text(summary.evaluations);
  text += "\n" + step_table(median_step(steps)).text(columns);
  if (summary.compared) text += "\n" + compared_turns_text(*summary.compared, last.tokens, columns);
  text += fmt::format("\n{}\n\nwritten:\n", folded(planning_text(summary.steps), columns));
  for (const auto& path : summary.written) text += "  " + path.string() + "\n";
  return text;
}

}  // namespace slimpack
