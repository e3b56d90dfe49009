// A training run: documents → plan → step, again and again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/engine.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The documents of one step.
struct StepBatch {
  SequenceLengths lengths;
  StepTokens tokens;
};

/// A step that has run: what was planned and what came of it.
struct CompletedStep {
  std::int64_t step = 0;
  StepBatch batch;
  PlannedStep planned;
  Nanos planning_time;
  StepResult result;
};

/// Owns dataset, cost model, engine and sampler. Everything that can be wrong with a configuration
/// is found in the constructor or in the first call of next(), before any step runs; what is wrong
/// with documents that are drawn later, by the call that draws them.
class TrainingRun {
 public:
  /// Measures the machine when the configuration names no cost source. Throws InvalidInput.
  TrainingRun(const RunConfig& config, std::function<bool()> should_stop);

  /// Trains one step.
  [[nodiscard]] CompletedStep next();

  /// Runs a batch under another planner without touching the weights.
  [[nodiscard]] CompletedStep rerun(const StepBatch& batch, PlannerKind planner);

  [[nodiscard]] const CostModel& cost() const { return cost_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const Truncation& truncation() const { return sampler_.truncation_per_epoch(); }
  [[nodiscard]] const IndexedDataset& dataset() const { return dataset_; }

 private:
  [[nodiscard]] StepBatch draw();
  void require_in_vocabulary(std::size_t document, std::span<const std::int64_t> tokens) const;
  [[nodiscard]] CompletedStep run(StepBatch batch, PlannerKind planner,
                                  const std::optional<Engine::Update>& update);

  RunConfig config_;
  ModelShape shape_;
  IndexedDataset dataset_;
  Sampler sampler_;
  CostModel cost_;
  std::optional<StepBatch> first_;  ///< drawn early: the layers are divided by its lengths
  std::unique_ptr<Engine> engine_;
  std::int64_t step_ = 0;
};

}  // namespace slimpack
