// A training run: documents → plan → step, again and again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/engine.h"
#include "slimpack/planner/plan_ahead.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The documents of one step.
struct StepBatch {
  SequenceLengths lengths;
  StepTokens tokens;
};

/// A step that is ready to run.
struct ReadyStep {
  StepBatch batch;
  PlannedStep planned;
  Nanos planning_time;
};

/// A step that has run: what was planned and what came of it.
struct CompletedStep {
  std::int64_t step = 0;
  ReadyStep ready;
  Nanos planning_wait;  ///< how long it could not begin because it was not ready
  StepResult result;
};

/// Owns dataset, cost model, engine and sampler. Everything that can be wrong with a configuration
/// is found in the constructor or in the first call of next(), before any step runs; what is wrong
/// with documents that are drawn later, by the call of next() that would train on them, although
/// they are drawn and planned while the step before trains.
class TrainingRun {
 public:
  /// Measures the machine when the configuration names no cost source. Throws InvalidInput.
  /// `should_stop` true ends a step with Interrupted; in a job of several processes (`process`,
  /// which outlives this) it ends the run between two steps, in all of them. There all make the
  /// same calls in the same order.
  TrainingRun(const RunConfig& config, std::function<bool()> should_stop,
              JobProcess* process = nullptr);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains one step. REQUIRES: called at most as often as the run has steps.
  [[nodiscard]] CompletedStep next();

  /// Runs a batch under another planner without touching the weights; planned in line.
  [[nodiscard]] CompletedStep rerun(const StepBatch& batch, PlannerKind planner);

  [[nodiscard]] const CostModel& cost() const { return cost_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const Truncation& truncation() const { return sampler_.truncation_per_epoch(); }
  [[nodiscard]] const IndexedDataset& dataset() const { return dataset_; }

 private:
  [[nodiscard]] StepBatch draw();
  void require_in_vocabulary(std::size_t document, std::span<const std::int64_t> tokens) const;
  [[nodiscard]] ReadyStep plan(StepBatch batch, PlannerKind planner) const;
  [[nodiscard]] CompletedStep run(ReadyStep ready, const std::optional<Engine::Update>& update);
  /// Every process plans for itself: what they run must be the same.
  void require_same_step(const PlannedStep& planned) const;

  // Sampler and first batch belong to the thread that plans ahead once it runs; what it reads of
  // the others does not change.
  RunConfig config_;
  JobProcess* process_;
  std::function<bool()> should_stop_;
  ModelShape shape_;
  IndexedDataset dataset_;
  Sampler sampler_;
  CostModel cost_;
  std::optional<StepBatch> first_;  ///< drawn early: the layers are divided by its lengths
  std::unique_ptr<Engine> engine_;
  std::int64_t step_ = 0;
  PlanAhead<ReadyStep> ahead_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
