// The figures of a training run's steps and evaluations, for people and for metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

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

/// The figures that follow from sequences, prediction and measurement of a step. Other figures have
/// their initial values. REQUIRES: a sequence.
[[nodiscard]] StepFigures figures_of(std::span<const DocumentSequence> sequences,
                                     const SimulationResult& predicted, const Timeline& measured);

/// The largest value; 0 if there is none.
[[nodiscard]] Bytes largest(const std::vector<Bytes>& bytes);

/// The loss on held-out documents.
struct EvaluationResult {
  double loss = 0;  ///< mean over the targets of all documents
  std::int64_t documents = 0;
  Tokens tokens;
  Nanos time;  ///< by the wall clock
};
struct EvaluationFigures {
  std::int64_t step = 0;  ///< steps done before it; 0 = before the first step
  EvaluationResult result;
};

/// A line of metrics.jsonl, without the time at which it is written.
[[nodiscard]] nlohmann::ordered_json to_json(const StepFigures& figures);
[[nodiscard]] nlohmann::ordered_json to_json(const EvaluationFigures& figures);

}  // namespace slimpack
