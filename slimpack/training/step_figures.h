// The figures of a training run's steps and evaluations, for people and for metrics.jsonl.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/evaluation.h"

namespace slimpack {

struct CompletedStep;

struct StepFigures {
  std::int64_t step = 0;  ///< from 1 on
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  std::int64_t documents = 0;  ///< of the step's sequences
  std::int64_t sequences = 0;
  Tokens tokens;
  Tokens longest;                      ///< of the longest sequence
  ClockKind clock = ClockKind::kWall;  ///< of step_time
  Nanos step_time;
  Nanos predicted_time;
  double bubble = 0;
  double predicted_bubble = 0;
  std::vector<Bytes> peak_activation;            ///< by rank
  std::vector<Bytes> predicted_peak_activation;  ///< by replica and stage
  Nanos planning_time;  ///< planning runs while the step before trains, except for the first step
  Nanos planning_wait;  ///< training waited so long for the plan; not in step_time

  [[nodiscard]] double tokens_per_second() const;
};
[[nodiscard]] StepFigures figures_of(const CompletedStep& step, const TrainConfig& config);

/// The largest value; 0 if there is none.
[[nodiscard]] Bytes largest(const std::vector<Bytes>& bytes);

/// The loss on held-out documents.
struct EvaluationFigures {
  std::int64_t step = 0;  ///< steps done before it; 0 = before the first step
  EvaluationResult result;
};

}  // namespace slimpack
