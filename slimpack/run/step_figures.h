// The figures of a training run's steps and evaluations, for people and for metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/data/sequences.h"
#include "slimpack/sim/simulate.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// How long a rank does what in a step, as the mean of all ranks. A rank that does none of it waits
/// for its first action, or for the end of the step.
struct PartTimes {
  Nanos forward;
  Nanos backward;   ///< with the head, if the vocabulary is spread
  Nanos optimizer;  ///< gradient norm, clipping, parameter update
  Nanos reduction;  ///< of gradients between ranks
  Nanos waiting;    ///< for messages
};

struct StepFigures {
  std::int64_t step = 0;  ///< from 1 on
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  std::int64_t documents = 0;  ///< of the step's sequences
  std::int64_t sequences = 0;
  Tokens tokens;
  std::int64_t targets = 0;            ///< tokens that the loss counts, of all replicas
  std::int64_t left_out = 0;           ///< sequences drawn before: those of steps without a target
  Tokens longest;                      ///< of the longest sequence
  ClockKind clock = ClockKind::kWall;  ///< of step_time
  Nanos step_time;
  Nanos predicted_time;
  double bubble = 0;
  double predicted_bubble = 0;
  std::optional<double> mfu;  ///< mfu_of; absent where the costs know no peak
  PartTimes parts;
  std::vector<Bytes> peak_activation;            ///< by rank
  std::vector<Bytes> predicted_peak_activation;  ///< by replica and stage
  Nanos reading_time;   ///< of tokens and masks, while the step before trains, in the first process
  Nanos planning_time;  ///< planning runs while the step before trains, except for the first step
  Nanos planning_wait;  ///< training waited so long for the plan; not in step_time

  [[nodiscard]] double tokens_per_second() const;
};

/// The figures that follow from sequences, costs, prediction and measurement of a step. Other
/// figures have their initial values. REQUIRES: a sequence.
[[nodiscard]] StepFigures figures_of(std::span<const DocumentSequence> sequences, const Costs& cost,
                                     const SimulationResult& predicted, const Timeline& measured);

/// The largest value; 0 if there is none.
[[nodiscard]] Bytes largest(const std::vector<Bytes>& bytes);

/// The loss on the sequences of one range of lengths.
struct LengthLoss {
  LengthRange lengths;
  double loss = 0;  ///< mean over their targets
  std::int64_t sequences = 0;
  Tokens tokens = {};
};

/// The loss on a set of held-out documents.
struct EvaluationResult {
  double loss = 0;  ///< mean over the targets of all documents
  std::int64_t documents = 0;
  Tokens tokens = {};
  Nanos time = {};                         ///< by the wall clock
  std::string name = {};                   ///< of the set; empty = it has none
  std::vector<LengthLoss> by_length = {};  ///< ranges with targets, the shortest first
};
struct EvaluationFigures {
  std::int64_t step = 0;  ///< steps done before it; 0 = before the first step
  EvaluationResult result;
};

/// A line of metrics.jsonl, without the time at which it is written.
[[nodiscard]] nlohmann::ordered_json to_json(const StepFigures& figures);
[[nodiscard]] nlohmann::ordered_json to_json(const EvaluationFigures& figures);

/// Where a step stands in its run.
struct StepPlace {
  std::int64_t done_before = 0;  ///< steps that were done before this start
  std::int64_t steps = 0;        ///< of the whole run
  Nanos elapsed;                 ///< since this start's first step began
};

/// "step  3/20  loss 5.1234  …", with as many figures as fit into `columns`.
[[nodiscard]] std::string step_line(const StepFigures& figures, const StepPlace& place,
                                    int columns);

/// "evaluation after step 3: loss 5.1234 on 131 k tok in 40 docs, took 12.3 ms". Names the set, as
/// "evaluation of code after step 3", and the loss by length if there are several ranges.
[[nodiscard]] std::string evaluation_line(const EvaluationFigures& figures);

}  // namespace slimpack
