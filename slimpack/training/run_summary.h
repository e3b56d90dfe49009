// The end of a training run: its last step's documents by turns, as they were planned and packed as
// usual, and its summary.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/report/compared_turns.h"
#include "slimpack/run/step_figures.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"
#include "slimpack/training/training_run.h"

namespace slimpack {

/// Three turns of both, without changing the weights. Tells `listener` of each. Ranks that are
/// threads on CPUs are measured in virtual time: whatever else runs on the machine, shares of
/// waiting and steps stay what they are. Other ranks are measured by the wall clock. All processes
/// of a job make the same calls; only the first one gets figures. Throws Interrupted once a stop is
/// asked for.
[[nodiscard]] ComparedTurns compare_by_turns(const CompletedStep& step, TrainingRun& run,
                                             const RunConfig& config, const JobAgreement& agreement,
                                             TrainingListener& listener);

/// The figures of a run of at least one step. `compared`: of the last step's documents, unless no
/// comparison was asked for or it was stopped.
struct RunSummary {
  std::vector<StepFigures> steps;
  std::vector<EvaluationFigures> evaluations;
  std::optional<ComparedTurns> compared;
  std::vector<std::filesystem::path> written;
};
/// The summary in lines of at most `columns`, except for paths.
[[nodiscard]] std::string summary_text(const RunSummary& summary, int columns);

}  // namespace slimpack
