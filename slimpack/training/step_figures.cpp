#include "slimpack/training/step_figures.h"

#include <algorithm>

#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/trace/timeline.h"
#include "slimpack/training/training_run.h"

namespace slimpack {

double StepFigures::tokens_per_second() const {
  return static_cast<double>(tokens.count()) / to_seconds(step_time);
}

StepFigures figures_of(const CompletedStep& step, const TrainConfig& config) {
  const TimelineMetrics measured = metrics_of(step.result.timeline);
  const SequenceLengths lengths = lengths_of(step.ready.batch.sequences);
  const SimulationResult& predicted = step.ready.planned.prediction;
  StepFigures f;
  f.step = step.step + 1;
  f.loss = step.result.loss;
  f.gradient_norm = step.result.gradient_norm;
  f.learning_rate = learning_rate(config, step.step);
  f.documents = document_count(step.ready.batch.sequences);
  f.sequences = static_cast<std::int64_t>(lengths.size());
  f.tokens = total_tokens(lengths);
  f.longest = *std::ranges::max_element(lengths);
  f.clock = config.clock;
  f.step_time = measured.makespan;
  f.predicted_time = predicted.makespan;
  f.bubble = measured.bubble_ratio;
  f.predicted_bubble = predicted.bubble_ratio;
  f.peak_activation = step.result.timeline.peak_activation;
  f.predicted_peak_activation = predicted.peak_activation;
  f.planning_time = step.ready.planning_time;
  f.planning_wait = step.ready.waited;
  return f;
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? Bytes(0) : *std::ranges::max_element(bytes);
}

}  // namespace slimpack
