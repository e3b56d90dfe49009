// Evaluation: the loss on documents that are not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_reader.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/step_planner.h"

namespace slimpack {

struct EvaluationResult {
  double loss = 0;  ///< mean over the targets of all documents
  std::int64_t documents = 0;
  Tokens tokens;
  Nanos time;  ///< by the wall clock
};

/// Held-out documents in the order of their dataset, as sequences of at most the context, as many
/// as evaluation.tokens holds; in batches of at most data.step_tokens, unless one sequence alone
/// has more. What batches run is planned once, and handed over as training steps are.
class Evaluation {
 public:
  /// Reads every token once. Throws InvalidInput for a dataset that cannot be used, one without
  /// any target in reach, and documents that do not fit.
  Evaluation(const RunConfig& config, const ModelShape& shape, const StepPlanner& planner,
             const JobAgreement& agreement);

  /// The engine's parameters stay as they are. `before_batch` may throw, which ends it.
  [[nodiscard]] EvaluationResult run(Engine& engine,
                                     const std::function<void()>& before_batch) const;

 private:
  struct Batch {
    std::vector<DocumentSequence> sequences;
    RatedPlan planned;
  };

  DocumentReader reader_;
  std::vector<Batch> batches_;
  std::int64_t targets_ = 0;    ///< of all batches
  std::int64_t documents_ = 0;  ///< that these come from
};

}  // namespace slimpack
