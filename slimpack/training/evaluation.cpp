#include "slimpack/training/evaluation.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_sequences.h"
#include "slimpack/training/step_maker.h"

namespace slimpack {

Evaluation::Evaluation(const RunConfig& config, const Decoder& shape, const StepPlanner& planner,
                       const JobAgreement& agreement)
    : reader_(config.evaluation.prefix, shape, config.model.config, config.train.loss) {
  const std::vector<DocumentSequence> sequences = first_sequences(
      reader_.dataset().lengths(), configured_sequences(config.data), config.evaluation.tokens);
  documents_ = document_count(sequences);
  for (auto& batch : in_batches(sequences, config.data.step_tokens)) {
    const StepTokens tokens = reader_.read(batch);
    weight_ += tokens.weight;
    RunnablePlan planned = plan_together(agreement, planner, batch, tokens.targets, "evaluation",
                                         &StepPlanner::plan_evaluation);
    batches_.push_back({std::move(batch), std::move(planned)});
  }
  if (weight_ == 0)
    invalid_input(
        "evaluation.tokens is {}, within which '{}' has no target; raise it or build the dataset "
        "from other files",
        config.evaluation.tokens.count(), config.evaluation.prefix.string());
}

EvaluationResult Evaluation::run(Engine& engine, const std::function<void()>& before_batch) const {
  const Nanos start = monotonic_now();
  EvaluationResult result;
  result.documents = documents_;
  for (const Batch& batch : batches_) {
    before_batch();
    const StepTokens tokens = reader_.read(batch.sequences);
    result.loss += engine.evaluate(batch.planned.plan, batch.planned.lowered, tokens);
    result.tokens += total_tokens(batch.planned.plan.lengths);
  }
  result.loss /= weight_;
  result.time = monotonic_now() - start;
  return result;
}

}  // namespace slimpack
