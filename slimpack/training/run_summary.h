// The summary at the end of a training run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/training/step_figures.h"

namespace slimpack {

/// The end of a run of at least one step. `packed` is the last step's documents under fixed packing
/// and `sliced` the same once more as planned, both without an update; absent when no comparison
/// was asked for.
struct RunSummary {
  std::vector<StepFigures> steps;
  std::vector<EvaluationFigures> evaluations;
  std::optional<StepFigures> sliced;
  std::optional<StepFigures> packed;
  std::vector<std::filesystem::path> written;
};
/// In lines of at most `columns`, paths apart.
[[nodiscard]] std::string summary_text(const RunSummary& summary, int columns);

}  // namespace slimpack
