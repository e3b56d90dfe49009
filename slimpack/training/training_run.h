// A training run: documents → plan → step, again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/packflow/checkpoint/checkpoint_writer.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/evaluation.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/run_limits.h"
#include "slimpack/training/run_state.h"
#include "slimpack/training/step_maker.h"
#include "slimpack/training/training_listener.h"
#include "slimpack/training/training_start.h"

namespace slimpack {

/// What a checkpoint keeps of a run's settings, and how they differ from those of the run that this
/// one goes on from: "train.steps was 100 and is 200 now".
struct RunOrigin {
  RunSettings settings;
  std::vector<std::string> changed;
};

/// A step that has run: what was planned and what came of it.
struct CompletedStep {
  std::int64_t step = 0;
  ReadyStep ready;
  StepResult result;
};

/// Owns engine, documents and plans. Everything that can be wrong with a configuration is found in
/// the constructor or in the first call of next(), before any step runs; what is wrong with
/// documents that are drawn later, by the call of next() that would train on them, although they
/// are drawn and planned while the step before trains. All processes of a job make the same calls
/// in the same order.
class TrainingRun {
 public:
  /// Measures the machine when the configuration names no cost source, and tells `listener` of it.
  /// Throws InvalidInput, also when `start` is of another model or a checkpoint of a run with other
  /// settings. A stop request ends a step with Interrupted; in a job of several processes it ends
  /// the run between two steps, in all of them. `agreement` outlives this.
  TrainingRun(const RunConfig& config, const TrainingStart& start, const JobAgreement& agreement,
              TrainingListener& listener);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains one step; none when all are done or a limit is reached. The first step of a start
  /// comes however little time the configuration gives.
  [[nodiscard]] std::optional<CompletedStep> next();
  [[nodiscard]] std::int64_t steps_done() const { return progress_.steps; }
  /// "train.max_tokens = 5000 is reached"; empty when no limit has ended the run.
  [[nodiscard]] const std::string& limit_reached() const { return progress_.limit; }

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

  [[nodiscard]] const Costs& cost() const { return maker_->planner().cost(); }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const IndexedDataset& dataset() const { return maker_->reader().dataset(); }
  [[nodiscard]] const std::vector<std::string>& changed_settings() const { return origin_.changed; }

 private:
  [[nodiscard]] CompletedStep run(ReadyStep ready, const std::optional<OptimizerUpdate>& update);

  const RunConfig config_;
  const JobAgreement& agreement_;
  RunOrigin origin_;
  RunProgress progress_;
  RunLimits limits_;
  std::unique_ptr<Engine> engine_;
  std::optional<Evaluation> evaluation_;
  std::unique_ptr<StepMaker> maker_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
