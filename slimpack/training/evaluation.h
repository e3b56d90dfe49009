// Evaluation: the loss on held-out documents.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/run/step_figures.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_stream.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/step_planner.h"

namespace slimpack {

/// Evaluates the first held-out documents of their dataset, as sequences of at most the context and
/// up to evaluation.tokens tokens. A batch has at most data.step_tokens, unless a single sequence
/// has more. Batches are planned once; plans are handed over as those of training steps.
class Evaluation {
 public:
  /// Reads every token once. Throws InvalidInput for an unusable dataset, for one without any
  /// target within evaluation.tokens, and for documents that do not fit.
  Evaluation(const RunConfig& config, const Decoder& shape, const StepPlanner& planner,
             const JobAgreement& agreement);

  /// Does not change the engine's parameters. An exception of `before_batch` ends the evaluation.
  [[nodiscard]] EvaluationResult run(Engine& engine,
                                     const std::function<void()>& before_batch) const;

 private:
  struct Batch {
    std::vector<DocumentSequence> sequences;
    RunnablePlan planned;
  };

  DocumentReader reader_;
  std::vector<Batch> batches_;
  double weight_ = 0;           ///< StepTokens::weight of all batches
  std::int64_t documents_ = 0;  ///< of all batches
};

}  // namespace slimpack
