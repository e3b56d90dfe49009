// A training run: documents → plan → step, again and again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/slimpack/run_state.h"
#include "apps/slimpack/training_start.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/checkpoint_writer.h"
#include "slimpack/packflow/engine.h"
#include "slimpack/planner/plan_ahead.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The documents of one step.
struct StepBatch {
  SequenceLengths lengths;
  StepTokens tokens;
  SamplerCursor cursor;  ///< after them: other steps may have been drawn since
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
  /// Measures the machine when the configuration names no cost source. Throws InvalidInput, also
  /// when `start` is of another model or a checkpoint of a run with other settings.
  /// `should_stop` true ends a step with Interrupted; in a job of several processes (`process`,
  /// which outlives this) it ends the run between two steps, in all of them. There all make the
  /// same calls in the same order.
  TrainingRun(const RunConfig& config, const TrainingStart& start,
              std::function<bool()> should_stop, JobProcess* process = nullptr);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains one step. REQUIRES: steps_done() is below the run's steps.
  [[nodiscard]] CompletedStep next();
  [[nodiscard]] std::int64_t steps_done() const { return step_; }

  /// What to save so that a run goes on after `last`. REQUIRES: what next() returned last.
  [[nodiscard]] CheckpointContents checkpoint_after(const CompletedStep& last) const;

  /// Runs a batch under another planner without touching the weights; planned in line.
  [[nodiscard]] CompletedStep rerun(const StepBatch& batch, PlannerKind planner);

  [[nodiscard]] const CostModel& cost() const { return cost_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const Truncation& truncation() const { return sampler_.truncation_per_epoch(); }
  [[nodiscard]] const IndexedDataset& dataset() const { return dataset_; }

 private:
  /// The checkpoint's, where the run goes on with the same ranks from one; else by configuration
  /// and by the first step's lengths.
  [[nodiscard]] CostModel choose_cost(const TrainingStart& start) const;
  [[nodiscard]] StageLayout choose_layout() const;
  [[nodiscard]] bool goes_on_alike() const;
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
  RunSettings settings_;
  std::optional<RunState> saved_;  ///< of the checkpoint that the run goes on from
  Sampler sampler_;
  CostModel cost_;
  std::optional<StepBatch> first_;  ///< drawn early: the layers are divided by its lengths
  std::unique_ptr<Engine> engine_;
  std::int64_t step_ = 0;       ///< the next one
  PlanAhead<ReadyStep> ahead_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
