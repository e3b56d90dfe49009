#include "apps/slimpack/evaluation.h"

#include <algorithm>
#include <utility>

#include "apps/slimpack/checked_plan.h"
#include "apps/slimpack/configured_request.h"
#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

using Documents = std::vector<SampledDocument>;

/// From the first one on, until the next would be more than `at_most` together. An empty document
/// has nothing to say.
Documents first_documents(const std::vector<Tokens>& lengths, Tokens context, Tokens at_most) {
  Documents documents;
  Tokens tokens;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const Tokens length = std::min(lengths[d], context);
    if (length == Tokens(0)) continue;
    if (tokens + length > at_most) break;
    documents.push_back({d, length});
    tokens += length;
  }
  return documents;
}

std::vector<Documents> batches_of(const Documents& documents, Tokens at_most) {
  std::vector<Documents> batches;
  Tokens tokens;
  for (const SampledDocument& document : documents) {
    if (batches.empty() || tokens + document.length > at_most) {
      batches.emplace_back();
      tokens = Tokens(0);
    }
    batches.back().push_back(document);
    tokens += document.length;
  }
  return batches;
}

/// Backward never runs: a plan that is found quickly serves as well as the best one.
PlanRequest evaluation_request(const RunConfig& config, const CostModel& cost,
                               const StageLayout& layout, const Documents& documents) {
  PlanRequest request = configured_request(config, cost, lengths_of(documents), layout);
  request.backward = BackwardKind::kWhole;
  request.solver = SolverKind::kFluid;
  request.time_budget = Nanos(0);
  return request;
}

}  // namespace

Evaluation::Evaluation(const RunConfig& config, const ModelShape& shape, const CostModel& cost,
                       const StageLayout& layout)
    : reader_(config.evaluation.prefix, shape, config.model.config) {
  const Documents documents =
      first_documents(reader_.dataset().lengths(), config.data.context, config.evaluation.tokens);
  for (Documents& batch : batches_of(documents, config.data.step_tokens)) {
    targets_ += reader_.read(batch).targets;
    const PlanRequest request = evaluation_request(config, cost, layout, batch);
    batches_.push_back({std::move(batch), checked_plan(config, request, cost)});
  }
  if (targets_ == 0)
    invalid_input(
        "evaluation.tokens is {}, within which '{}' has no document of two tokens; raise it or "
        "build the dataset from other files",
        config.evaluation.tokens.count(), config.evaluation.prefix.string());
}

EvaluationResult Evaluation::run(
    Engine& engine, const std::function<void(const PlannedStep&)>& before_batch) const {
  const Nanos start = monotonic_now();
  EvaluationResult result;
  for (const Batch& batch : batches_) {
    before_batch(batch.planned);
    const StepTokens tokens = reader_.read(batch.documents);
    result.loss += engine.evaluate(batch.planned.plan, batch.planned.schedules, tokens);
    result.documents += static_cast<std::int64_t>(batch.documents.size());
    result.tokens += total_tokens(batch.planned.plan.lengths);
  }
  result.loss /= static_cast<double>(targets_);
  result.time = monotonic_now() - start;
  return result;
}

}  // namespace slimpack
