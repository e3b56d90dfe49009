#include "slimpack/training/evaluation.h"

#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_sequences.h"
#include "slimpack/training/step_maker.h"

namespace slimpack {
namespace {

/// The batches of each range of lengths.
std::vector<std::vector<DocumentSequence>> batches_by_length(
    std::span<const DocumentSequence> sequences, Tokens at_most) {
  std::map<LengthRange, std::vector<DocumentSequence>> by_length;
  for (const DocumentSequence& sequence : sequences)
    by_length[range_of(sequence.length)].push_back(sequence);
  std::vector<std::vector<DocumentSequence>> batches;
  for (const auto& [range, of_range] : by_length)
    for (auto& batch : in_batches(of_range, at_most)) batches.push_back(std::move(batch));
  return batches;
}

/// The mean of losses by the weights of their targets.
struct MeanLoss {
  double sum = 0;
  double weight = 0;

  void add(double loss, double more) { sum += loss, weight += more; }
  [[nodiscard]] double mean() const { return sum / weight; }
};

}  // namespace

Evaluation::Set Evaluation::make_set(const HeldOutSource& source, const RunConfig& config,
                                     const Decoder& shape, const StepPlanner& planner,
                                     const JobAgreement& agreement) {
  Set set{source.name,
          DocumentReader({source.prefix}, shape, config.model.config, config.train.loss)};
  const std::vector<Tokens> lengths = set.reader.lengths().front();
  const SequenceRule rule = configured_sequences(config.data);
  const std::vector<DocumentSequence> sequences =
      first_sequences(lengths, rule, config.evaluation.tokens);
  set.documents = document_count(sequences);
  std::int64_t targets = 0;
  for (auto& batch : batches_by_length(sequences, config.data.step_tokens)) {
    const std::int64_t of_batch = set.reader.read(batch).targets;
    targets += of_batch;
    RunnablePlan planned = plan_together(agreement, planner, batch, of_batch, "evaluation",
                                         &StepPlanner::plan_evaluation);
    set.batches.push_back({std::move(batch), std::move(planned)});
  }
  if (targets > 0) return set;
  if (rule.long_documents == LongDocumentsKind::kDrop)
    require_sequences(lengths, rule, fmt::format("dataset '{}'", source.prefix.string()));
  invalid_input(
      "evaluation.tokens is {}, within which '{}' has no target; raise it or build the dataset "
      "from other files",
      config.evaluation.tokens.count(), source.prefix.string());
}

Evaluation::Evaluation(const RunConfig& config, const Decoder& shape, const StepPlanner& planner,
                       const JobAgreement& agreement) {
  for (const HeldOutSource& source : config.evaluation.datasets())
    sets_.push_back(make_set(source, config, shape, planner, agreement));
}

EvaluationResult Evaluation::run(const Set& set, Engine& engine,
                                 const std::function<void()>& before_batch) {
  const Nanos start = monotonic_now();
  EvaluationResult result;
  result.name = set.name;
  result.documents = set.documents;
  MeanLoss all;
  std::vector<std::pair<LengthLoss, MeanLoss>> by_length;
  for (const Batch& batch : set.batches) {
    before_batch();
    const StepTokens tokens = set.reader.read(batch.sequences);
    const double loss = engine.evaluate(batch.planned.plan, batch.planned.lowered, tokens);
    const LengthRange range = range_of(batch.sequences.front().length);
    const Tokens of_batch = total_tokens(batch.planned.plan.lengths);
    all.add(loss, tokens.weight);
    result.tokens += of_batch;
    if (by_length.empty() || by_length.back().first.lengths != range)
      by_length.emplace_back().first.lengths = range;
    auto& [part, of_part] = by_length.back();
    of_part.add(loss, tokens.weight);
    part.sequences += std::ssize(batch.sequences);
    part.tokens += of_batch;
  }
  result.loss = all.mean();
  for (auto& [part, of_part] : by_length) {
    if (of_part.weight == 0) continue;
    part.loss = of_part.mean();
    result.by_length.push_back(part);
  }
  result.time = monotonic_now() - start;
  return result;
}

std::vector<EvaluationResult> Evaluation::run(Engine& engine,
                                              const std::function<void()>& before_batch) const {
  std::vector<EvaluationResult> results;
  for (const Set& set : sets_) results.push_back(run(set, engine, before_batch));
  return results;
}

}  // namespace slimpack
