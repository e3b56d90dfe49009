// The summary at the end of a training run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/report/compared_turns.h"
#include "slimpack/run/step_figures.h"

namespace slimpack {

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
