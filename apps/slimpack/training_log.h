// What a training run tells: a line per step, metrics as JSON lines, the summary at the end.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/slimpack/evaluation.h"
#include "apps/slimpack/training_run.h"
#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The figures of one step that people ask for.
struct StepFigures {
  std::int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  std::int64_t documents = 0;
  Tokens tokens;
  Tokens longest;
  ClockKind clock = ClockKind::kWall;  ///< of step_time
  Nanos step_time;
  Nanos predicted_time;
  double bubble = 0;
  double predicted_bubble = 0;
  std::vector<Bytes> peak_activation;            ///< by rank
  std::vector<Bytes> predicted_peak_activation;  ///< by replica and stage
  Nanos planning_time;  ///< while the step before trained, except the first step's
  Nanos planning_wait;  ///< training stood still for it; not in step_time

  [[nodiscard]] double tokens_per_second() const;
};
[[nodiscard]] StepFigures figures_of(const CompletedStep& step, const TrainConfig& config);

/// The loss on held-out documents after a step.
struct EvaluationFigures {
  std::int64_t step = 0;
  EvaluationResult result;
};

/// Throws InvalidInput unless `folder` can be created, or written if it exists. Creates nothing.
void require_writable_folder(const std::filesystem::path& folder);

/// Writes metrics.jsonl in `folder` line by line (docs/metrics.md), after the lines of earlier
/// steps, and keeps a progress line on `out`, redrawn where that is a terminal.
class TrainingLog {
 public:
  /// Of the steps from `first` to `steps` − 1. Touches no file: what an earlier run left stays
  /// until the first line is due.
  TrainingLog(const std::filesystem::path& folder, std::int64_t first, std::int64_t steps,
              std::FILE* out);
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;
  ~TrainingLog() { finish(); }

  /// Throws InvalidInput when the line cannot be written (full disk); the file then ends with the
  /// line before.
  void step(const StepFigures& figures);
  /// Likewise; on a line of its own.
  void evaluation(const EvaluationFigures& figures);

  /// Ends the progress line.
  void finish();

 private:
  void write(nlohmann::ordered_json line);
  void open_metrics(const nlohmann::ordered_json& first_line);
  [[nodiscard]] std::string line(const StepFigures& figures) const;

  std::filesystem::path file_;
  std::ofstream metrics_;
  std::uint64_t metrics_bytes_ = 0;  ///< whole lines
  std::int64_t first_;
  std::int64_t steps_;
  std::FILE* out_;
  bool redraw_;
  bool line_open_ = false;
  Nanos start_;
};

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
[[nodiscard]] std::string summary_text(const RunSummary& summary);

}  // namespace slimpack
