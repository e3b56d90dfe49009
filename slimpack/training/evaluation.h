// Evaluation: the loss on sets of held-out documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
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

/// Evaluates the first documents of each held-out dataset, as sequences of at most the context and
/// up to evaluation.tokens tokens. A batch has sequences of one range of lengths (range_of) and at
/// most data.step_tokens, unless a single sequence has more. Batches are planned once; plans are
/// handed over as those of training steps.
class Evaluation {
 public:
  /// Reads every token once. Throws InvalidInput for an unusable dataset, for one without any
  /// target within evaluation.tokens, and for documents that do not fit.
  Evaluation(const RunConfig& config, const Decoder& shape, const StepPlanner& planner,
             const JobAgreement& agreement);

  /// The loss of each dataset, in their order. Does not change the engine's parameters. An
  /// exception of `before_batch` ends the evaluation.
  [[nodiscard]] std::vector<EvaluationResult> run(Engine& engine,
                                                  const std::function<void()>& before_batch) const;

 private:
  struct Batch {
    std::vector<DocumentSequence> sequences;
    RunnablePlan planned;
  };
  /// A held-out dataset. Batches of one range of lengths are neighbours, the shortest come first.
  struct Set {
    std::string name;
    DocumentReader reader;
    std::vector<Batch> batches = {};
    std::int64_t documents = 0;
  };
  [[nodiscard]] static Set make_set(const HeldOutSource& source, const RunConfig& config,
                                    const Decoder& shape, const StepPlanner& planner,
                                    const JobAgreement& agreement);
  [[nodiscard]] static EvaluationResult run(const Set& set, Engine& engine,
                                            const std::function<void()>& before_batch);

  std::vector<Set> sets_;
};

}  // namespace slimpack
