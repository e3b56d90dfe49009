#include "slimpack/training/step_turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "slimpack/base/human.h"
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

}  // namespace slimpack
