#include "slimpack/run/step_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/run/metrics_lines.h"

namespace slimpack {
namespace {

std::vector<std::int64_t> counts(const std::vector<Bytes>& bytes) {
  std::vector<std::int64_t> result;
  for (const Bytes b : bytes) result.push_back(b.count());
  return result;
}

}  // namespace

double StepFigures::tokens_per_second() const {
  return static_cast<double>(tokens.count()) / to_seconds(step_time);
}

StepFigures figures_of(std::span<const DocumentSequence> sequences,
                       const SimulationResult& predicted, const Timeline& measured) {
  const TimelineMetrics metrics = metrics_of(measured);
  StepFigures f;
  f.documents = document_count(sequences);
  f.sequences = static_cast<std::int64_t>(sequences.size());
  for (const DocumentSequence& sequence : sequences) f.tokens += sequence.length;
  f.longest = std::ranges::max(sequences, {}, &DocumentSequence::length).length;
  f.step_time = metrics.makespan;
  f.predicted_time = predicted.makespan;
  f.bubble = metrics.bubble_ratio;
  f.predicted_bubble = predicted.bubble_ratio;
  f.peak_activation = measured.peak_activation;
  f.predicted_peak_activation = predicted.peak_activation;
  return f;
}

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? Bytes(0) : *std::ranges::max_element(bytes);
}

nlohmann::ordered_json to_json(const StepFigures& f) {
  return {{"step", f.step},
          {"loss", f.loss},
          {"gradient_norm", f.gradient_norm},
          {"learning_rate", f.learning_rate},
          {"documents", f.documents},
          {"sequences", f.sequences},
          {"tokens", f.tokens.count()},
          {"longest", f.longest.count()},
          {"clock", to_string(f.clock)},
          {"step_ns", f.step_time.count()},
          {"predicted_step_ns", f.predicted_time.count()},
          {"tokens_per_second", f.tokens_per_second()},
          {"bubble", f.bubble},
          {"predicted_bubble", f.predicted_bubble},
          {"peak_activation_bytes", counts(f.peak_activation)},
          {"predicted_peak_activation_bytes", counts(f.predicted_peak_activation)},
          {"planning_ns", f.planning_time.count()},
          {"planning_wait_ns", f.planning_wait.count()}};
}

nlohmann::ordered_json to_json(const EvaluationFigures& f) {
  return {{"step", f.step},
          {kEvaluationLoss, f.result.loss},
          {"evaluation_documents", f.result.documents},
          {"evaluation_tokens", f.result.tokens.count()},
          {"evaluation_ns", f.result.time.count()}};
}

}  // namespace slimpack
