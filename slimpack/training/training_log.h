// What a training run tells while it goes on: lines of the log, and metrics as JSON lines.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "slimpack/base/units.h"
#include "slimpack/training/step_figures.h"

namespace slimpack {

/// Throws InvalidInput unless `folder` can be created, or written if it exists. Creates nothing.
void require_writable_folder(const std::filesystem::path& folder);

/// "step  3/20  loss 5.1234  …", as much of it as fits into `columns`. `done` steps were done
/// before this start, which has taken `elapsed` so far; `steps` is the number of the last one.
[[nodiscard]] std::string step_line(const StepFigures& figures, std::int64_t done,
                                    std::int64_t steps, Nanos elapsed, int columns);

/// Writes metrics.jsonl in `folder` line by line (docs/metrics.md), after the lines of earlier
/// steps, and a line of each step to `out`, no longer than a terminal there is wide.
class TrainingLog {
 public:
  /// Of the steps after the first `done` to the one of number `steps`. Touches no file: what an
  /// earlier run left stays until the first line is due.
  TrainingLog(const std::filesystem::path& folder, std::int64_t done, std::int64_t steps,
              std::FILE* out);
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  /// Throws as output_failed when the line cannot be written; the file then ends with the line
  /// before.
  void step(const StepFigures& figures);
  /// Likewise.
  void evaluation(const EvaluationFigures& figures);

 private:
  void write(nlohmann::ordered_json line);
  void open_metrics(const nlohmann::ordered_json& first_line);

  std::filesystem::path file_;
  std::ofstream metrics_;
  std::uint64_t metrics_bytes_ = 0;  ///< whole lines
  std::int64_t done_;                ///< before this start
  std::int64_t steps_;
  std::FILE* out_;
  Nanos start_;
};

}  // namespace slimpack
