// The figures of a training run's steps and evaluations that people ask for.
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
  std::int64_t documents = 0;  ///< that its sequences come from
  std::int64_t sequences = 0;
  Tokens tokens;
  Tokens longest;                      ///< sequence
  ClockKind clock = ClockKind::kWall;  ///< of step_time
  Nanos step_time;
  Nanos predicted_time;
  double bubble = 0;
  double predicted_bubble = 0;
  std::vector<Bytes> peak_activation;            ///< by rank
  std::vector<Bytes> predicted_peak_activation;  ///< by replica and stage
  Nanos planning_time;  ///< while the step before trained, except the first step's
  Nanos planning_wait;  ///< training stood still for it; not in step_time

  [[nodiscard]] double tokens_per_second() const;
};
[[nodiscard]] StepFigures figures_of(const CompletedStep& step, const TrainConfig& config);

/// Of all ranks; 0 when there is none.
[[nodiscard]] Bytes largest(const std::vector<Bytes>& bytes);

/// The loss on held-out documents.
struct EvaluationFigures {
  std::int64_t step = 0;  ///< after so many; 0 = before the first one
  EvaluationResult result;
};

}  // namespace slimpack
