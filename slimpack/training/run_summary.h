// The summary at the end of a training run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/training/step_figures.h"

namespace slimpack {

/// The figures of a run of at least one step. `sliced` and `packed` rerun the last step's documents
/// as planned and under fixed packing, both without an update. They are absent unless a comparison
/// was asked for.
struct RunSummary {
  std::vector<StepFigures> steps;
  std::vector<EvaluationFigures> evaluations;
  std::optional<StepFigures> sliced;
  std::optional<StepFigures> packed;
  std::vector<std::filesystem::path> written;
};
/// The summary in lines of at most `columns`, except for paths.
[[nodiscard]] std::string summary_text(const RunSummary& summary, int columns);

}  // namespace slimpack
