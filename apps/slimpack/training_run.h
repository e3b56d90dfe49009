// A training run: documents → plan → step, again and again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/slimpack/document_reader.h"
#include "apps/slimpack/evaluation.h"
#include "apps/slimpack/run_state.h"
#include "apps/slimpack/training_start.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/checkpoint/checkpoint_writer.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/plan_ahead.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// What one step trains on.
struct StepBatch {
  std::vector<DocumentSequence> sequences;  ///< by SequenceId
  StepTokens tokens;
  SamplerCursor cursor;  ///< after them: other steps may have been drawn since
};

/// A step that is ready to run.
struct ReadyStep {
  StepBatch batch;
  RatedPlan planned;
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

  /// Trains one step; none when all are done or a limit is reached. The first step of a start
  /// comes however little time the configuration gives.
  [[nodiscard]] std::optional<CompletedStep> next();
  [[nodiscard]] std::int64_t steps_done() const { return step_; }
  /// "train.max_tokens = 5000 is reached"; empty when no limit has ended the run.
  [[nodiscard]] const std::string& limit_reached() const { return limit_; }

  /// Whether the loss is to be evaluated before another step: it is once before the first step,
  /// after every so many steps, and where the run ends by itself. A run that goes on makes up for
  /// what the one before was stopped in.
  [[nodiscard]] bool evaluation_due() const;
  /// Leaves everything else as it is. REQUIRES: it is due.
  [[nodiscard]] EvaluationResult evaluate();

  /// What to save so that a run goes on after `last`. REQUIRES: what next() returned last.
  [[nodiscard]] CheckpointContents checkpoint_after(const CompletedStep& last) const;

  /// Runs a batch under another planner without touching the weights; planned in line.
  [[nodiscard]] CompletedStep rerun(const StepBatch& batch, PlannerKind planner);

  [[nodiscard]] const Costs& cost() const { return cost_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const IndexedDataset& dataset() const { return reader_.dataset(); }
  /// What differs from the run that this one goes on from: "train.steps was 100 and is 200 now".
  [[nodiscard]] const std::vector<std::string>& changed_settings() const { return changed_; }

 private:
  /// The checkpoint's, where the run goes on with the same ranks from one; else by configuration
  /// and by the first step's lengths.
  [[nodiscard]] Costs choose_cost(const TrainingStart& start) const;
  [[nodiscard]] StageLayout choose_layout() const;
  [[nodiscard]] bool goes_on_alike() const;
  [[nodiscard]] StepBatch draw();
  [[nodiscard]] ReadyStep plan(StepBatch batch, PlannerKind planner) const;
  [[nodiscard]] CompletedStep run(ReadyStep ready, const std::optional<OptimizerUpdate>& update);
  /// Whether another step comes after so many steps of so many tokens, unless time is over.
  [[nodiscard]] bool goes_on(std::int64_t steps, Tokens tokens) const;
  [[nodiscard]] bool out_of_time() const;
  void note_token_limit();
  /// The step that was planned ahead. What it throws in one process, it throws in all.
  [[nodiscard]] PlanAhead<ReadyStep>::Taken take_ahead();
  /// Processes plan and look at their clocks by themselves: whether all go on with `planned`, which
  /// must be the same. Throws Interrupted when any was asked to stop.
  [[nodiscard]] bool all_go_on(const RatedPlan& planned, bool out_of_time) const;
  /// The same, of what this process says to the others.
  [[nodiscard]] bool agreed(const std::string& own) const;

  Nanos start_;  ///< of the run's time, by monotonic_now()
  // Sampler and first batch belong to the thread that plans ahead once it runs; what it reads of
  // the others does not change.
  RunConfig config_;
  JobProcess* process_;
  std::function<bool()> should_stop_;
  ModelShape shape_;
  DocumentReader reader_;
  RunSettings settings_;
  std::optional<RunState> saved_;  ///< of the checkpoint that the run goes on from
  std::vector<std::string> changed_;
  Sampler sampler_;
  Costs cost_;
  std::optional<StepBatch> first_;  ///< drawn early: the layers are divided by its lengths
  std::unique_ptr<Engine> engine_;
  std::optional<Evaluation> evaluation_;
  std::int64_t step_ = 0;             ///< the next one
  std::int64_t first_step_ = 0;       ///< of this start
  Tokens tokens_;                     ///< of the steps done
  std::int64_t evaluated_steps_ = 0;  ///< done at the last evaluation; -1 = there was none
  std::string limit_;
  PlanAhead<ReadyStep> ahead_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
