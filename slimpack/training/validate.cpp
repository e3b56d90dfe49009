#include "slimpack/training/validate.h"

#include <algorithm>
#include <optional>

#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/training/divergence.h"
#include "slimpack/training/training_run.h"

namespace slimpack {
namespace {

/// Runs the step's plan on its documents again and again. Repetitions update the weights, so that
/// they do all that a step does.
StepErrors errors_of_step(const CompletedStep& step, const ValidationRequest& request,
                          TrainingRun& run, const std::function<void()>& done) {
  const ReadyStep& ready = step.ready;
  std::vector<Timeline> measured;
  for (std::int64_t r = 0; r < request.repetitions; ++r) {
    const TrainConfig& config = request.config.train;
    StepResult result = run.engine().run(ready.planned.plan, ready.planned.lowered,
                                         ready.batch.tokens, OptimizerUpdate{config, step.step});
    require_sound(result, {.given = "", .trained_here = true}, learning_rate(config, step.step));
    measured.push_back(std::move(result.timeline));
    done();
  }
  return step_errors(ready.planned, run.cost_of(ready), measured);
}

}  // namespace

std::vector<StepErrors> validate(const ValidationRequest& request, TrainingListener& listener,
                                 const std::function<bool()>& should_stop,
                                 const std::function<void()>& done) {
  RunConfig config = request.config;
  config.train.steps = std::max(config.train.steps, request.steps);
  config.evaluation.every = 0;
  const JobAgreement alone(nullptr, should_stop);
  TrainingRun run(config, TrainingStart{}, alone, listener);
  std::vector<StepErrors> steps;
  while (static_cast<std::int64_t>(steps.size()) < request.steps) {
    const std::optional<CompletedStep> step = run.next();
    if (!step) break;
    done();
    steps.push_back(errors_of_step(*step, request, run, done));
  }
  return steps;
}

}  // namespace slimpack
