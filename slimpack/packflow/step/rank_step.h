// One rank's part of a step: its instructions in order, then the update, with a span for
// everything; or its forward actions alone.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/packflow/step/step_record.h"
#include "slimpack/packflow/step/vocabulary_step.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

/// The inputs of a rank's part of a step. References outlive the call.
struct RankStep {
  const EngineOptions& options;
  std::int32_t rank;
  std::span<StageParameters> parameters;  ///< of its stages
  std::deque<StageStep>& stages;
  VocabularyStep* vocabulary;  ///< null unless it is spread
  const PackPlan& packs;
  const std::vector<Instruction>& instructions;
  const std::vector<ContextExchange>& exchanges;
  Communicator& communicator;
  const std::optional<OptimizerUpdate>& update;
  const RankClock& clock;
  Bytes resident;  ///< of the rank before any rank started: parameters and the like
};

[[nodiscard]] RankResult run_rank(const RankStep& rank);

/// Runs forward actions alone, without keeping anything for backward; Σ loss over all ranks. An
/// order that ends also ends without its backward actions: they only make other actions wait.
[[nodiscard]] double evaluate_rank(const RankStep& rank);

}  // namespace slimpack
