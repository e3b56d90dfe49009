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
#include "slimpack/planner/speed_tracker.h"
#include "slimpack/run/run_limits.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/divergence.h"
#include "slimpack/training/evaluation.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/plan_basis.h"
#include "slimpack/training/run_state.h"
#include "slimpack/training/step_maker.h"
#include "slimpack/training/training_listener.h"
#include "slimpack/training/training_start.h"

namespace slimpack {

/// A run's settings, and how they differ from those of the run that it resumes.
struct RunOrigin {
  RunSettings settings;              ///< for checkpoints
  std::vector<std::string> changed;  ///< "train.steps was 100 and is 200 now"
};

/// A step that has run: its plan and its result.
struct CompletedStep {
  std::int64_t step = 0;
  ReadyStep ready;
  StepResult result;
};

/// Owns engine, documents and plans. The constructor or the first call of next() finds every
/// mistake in the configuration before any step runs. Documents of later steps are drawn and
/// planned while the step before trains, but a mistake in them is thrown by the call of next() that
/// would train on them. All processes of a job make the same calls in the same order.
class TrainingRun {
 public:
  /// Measures the machine and tells `listener`, if the configuration names no costs. Throws
  /// InvalidInput, also if `start` is of another model, or is a checkpoint of a run with other
  /// settings. A stop request ends a step with Interrupted. In a job of several processes it ends
  /// the run in all of them, between two steps. `agreement` and `listener` must outlive this
  /// object.
  TrainingRun(const RunConfig& config, const TrainingStart& start, const JobAgreement& agreement,
              TrainingListener& listener, const PlanSettings& settings = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains one step. nullopt if all steps are done or a limit is reached. The time limit never
  /// prevents the first step of a start. Throws Diverged, in all processes, if the step has no
  /// finite gradient or its update makes weights that are not finite: it does not count then.
  [[nodiscard]] std::optional<CompletedStep> next();
  [[nodiscard]] std::int64_t steps_done() const { return progress_.steps; }
  /// "train.max_tokens = 5000 is reached"; empty if no limit has ended the run.
  [[nodiscard]] const std::string& limit_reached() const { return progress_.limit; }

  /// Whether the loss has to be evaluated before another step (RunLimits), with evaluation.every. A
  /// resumed run makes up for an evaluation that a stop prevented.
  [[nodiscard]] bool evaluation_due() const;
  /// Evaluates the loss on each held-out set and changes nothing else. Throws Diverged, in all
  /// processes, if a loss is not finite. REQUIRES: evaluation_due().
  [[nodiscard]] std::vector<EvaluationResult> evaluate();

  /// The contents of a checkpoint from which a run resumes after `last`. REQUIRES: next() returned
  /// `last` last.
  [[nodiscard]] CheckpointContents checkpoint_after(const CompletedStep& last) const;

  /// Plans a batch with another planner.
  [[nodiscard]] ReadyStep planned_again(const StepBatch& batch, PlannerKind planner) const;
  /// Runs a step without changing the weights, measured by `clock` (Engine::run).
  [[nodiscard]] StepResult rerun(const ReadyStep& ready, ClockKind clock);

  [[nodiscard]] const Costs& cost() const { return maker_->planner().cost(); }
  /// The costs that the step was planned with.
  [[nodiscard]] Costs cost_of(const ReadyStep& step) const {
    return maker_->planner().cost_of(step.batch.target_share());
  }
  [[nodiscard]] PlanLimits plan_limits() const { return maker_->planner().limits(); }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const DocumentReader& reader() const { return maker_->reader(); }
  [[nodiscard]] const std::vector<std::string>& changed_settings() const { return origin_.changed; }

 private:
  [[nodiscard]] CompletedStep run(ReadyStep ready, const OptimizerUpdate& update);
  /// Learns the ranks' speeds from a step; tells the listener what changes, and drift once.
  void watch(const CompletedStep& done);
  /// Where the weights come from that the engine has now.
  [[nodiscard]] WeightsOrigin weights_origin() const;
  /// With which the next step is planned; empty = as the configuration has them.
  [[nodiscard]] RankSpeeds followed_speeds() const;

  const RunConfig config_;
  const JobAgreement& agreement_;
  TrainingListener& listener_;
  SpeedTracker speeds_;
  DriftWatch drift_;
  RunOrigin origin_;
  std::string given_weights_;  ///< WeightsOrigin::given
  RunProgress progress_;
  RunLimits limits_;
  std::unique_ptr<Engine> engine_;
  std::optional<Evaluation> evaluation_;
  std::unique_ptr<StepMaker> maker_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
