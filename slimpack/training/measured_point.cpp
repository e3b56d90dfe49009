#include "slimpack/training/measured_point.h"

#include <algorithm>
#include <cmath>

#include "slimpack/base/median.h"
#include "slimpack/training/training_run.h"

namespace slimpack {
namespace {

SweepFigures figures_of(const CompletedStep& step, const Costs& cost) {
  SweepFigures figures = sweep_figures(step.ready.planned, cost);
  const TimelineMetrics measured = metrics_of(step.result.timeline);
  figures.measured = {measured.makespan, measured.bubble_ratio,
                      std::ranges::max(step.result.timeline.peak_activation)};
  return figures;
}

/// The median of one figure, which is a number.
template <class Figure>
double median_of(const std::vector<SweepFigures>& steps, const Figure& figure) {
  std::vector<double> values;
  for (const SweepFigures& step : steps) values.push_back(static_cast<double>(figure(step)));
  return median(std::move(values));
}

template <class Times>
SweepTimes median_times(const std::vector<SweepFigures>& steps, const Times& times) {
  const auto of = [&](const auto& figure) {
    return median_of(steps, [&](const SweepFigures& step) { return figure(times(step)); });
  };
  return {Nanos(std::llround(of([](const SweepTimes& t) { return t.makespan.count(); }))),
          of([](const SweepTimes& t) { return t.bubble; }),
          Bytes(std::llround(of([](const SweepTimes& t) { return t.peak.count(); })))};
}

RunConfig short_run(RunConfig config, std::int64_t steps) {
  config.train.steps = steps;
  config.train.max_tokens = Tokens(0);
  config.train.max_seconds = 0;
  config.evaluation.every = 0;
  return config;
}

}  // namespace

SweepFigures median_figures(const std::vector<SweepFigures>& steps) {
  const auto count = [&](const auto& figure) {
    return static_cast<std::size_t>(std::llround(median_of(steps, figure)));
  };
  SweepFigures middle;
  middle.ranks = steps.front().ranks;
  if (steps.front().mfu) middle.mfu = median_of(steps, [](const auto& step) { return *step.mfu; });
  middle.tokens =
      Tokens(std::llround(median_of(steps, [](const auto& step) { return step.tokens.count(); })));
  middle.predicted = median_times(steps, [](const auto& step) { return step.predicted; });
  middle.measured = median_times(steps, [](const auto& step) { return *step.measured; });
  middle.forward_packs = count([](const auto& step) { return step.forward_packs; });
  middle.backward_packs = count([](const auto& step) { return step.backward_packs; });
  middle.slices = count([](const auto& step) { return step.slices; });
  middle.overhead = median_of(steps, [](const auto& step) { return step.overhead; });
  return middle;
}

SweepPoint measured_point(const SweepJob& job, const Costs& cost, std::int64_t steps,
                          const std::function<void()>& on_step,
                          const std::function<bool()>& should_stop) {
  const JobAgreement agreement(nullptr, should_stop);
  TrainingListener nobody;
  try {
    TrainingRun run(short_run(job.config, steps), {}, agreement, nobody, {job.search, cost});
    std::vector<SweepFigures> counted;
    while (const auto step = run.next()) {
      if (step->step > 0) counted.push_back(figures_of(*step, run.cost_of(step->ready)));
      on_step();
    }
    return {job.at, median_figures(counted), {}};
  } catch (const JobDoesNotFit& e) {
    return {job.at, {}, e.what()};
  }
}

}  // namespace slimpack
