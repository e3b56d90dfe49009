#include "slimpack/training/evaluation.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_sequences.h"
#include "slimpack/training/step_maker.h"

namespace slimpack {
namespace {

using Sequences = std::vector<DocumentSequence>;

/// The first sequences, as many as have at most `at_most` tokens together.
Sequences first_sequences(const std::vector<Tokens>& lengths, const SequenceRule& rule,
                          Tokens at_most) {
  Sequences sequences;
  Tokens tokens;
  for (std::size_t d = 0; d < lengths.size(); ++d)
    for (std::int64_t k = 0; k < sequence_count(lengths[d], rule); ++k) {
      const DocumentSequence next = sequence_of(d, lengths[d], k, rule);
      if (tokens + next.length > at_most) return sequences;
      sequences.push_back(next);
      tokens += next.length;
    }
  return sequences;
}

std::vector<Sequences> batches_of(const Sequences& sequences, Tokens at_most) {
  std::vector<Sequences> batches;
  Tokens tokens;
  for (const DocumentSequence& sequence : sequences) {
    if (batches.empty() || tokens + sequence.length > at_most) {
      batches.emplace_back();
      tokens = Tokens(0);
    }
    batches.back().push_back(sequence);
    tokens += sequence.length;
  }
  return batches;
}

}  // namespace

Evaluation::Evaluation(const RunConfig& config, const Decoder& shape, const StepPlanner& planner,
                       const JobAgreement& agreement)
    : reader_(config.evaluation.prefix, shape, config.model.config) {
  const Sequences sequences = first_sequences(
      reader_.dataset().lengths(), configured_sequences(config.data), config.evaluation.tokens);
  documents_ = document_count(sequences);
  for (Sequences& batch : batches_of(sequences, config.data.step_tokens)) {
    targets_ += reader_.read(batch).targets;
    RatedPlan planned =
        plan_together(agreement, planner, batch, "evaluation", &StepPlanner::plan_evaluation);
    batches_.push_back({std::move(batch), std::move(planned)});
  }
  if (targets_ == 0)
    invalid_input(
        "evaluation.tokens is {}, within which '{}' has no sequence of two tokens; raise it or "
        "build the dataset from other files",
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
  result.loss /= static_cast<double>(targets_);
  result.time = monotonic_now() - start;
  return result;
}

}  // namespace slimpack
