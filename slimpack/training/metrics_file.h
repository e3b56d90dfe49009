// metrics.jsonl: the figures of a run's steps and evaluations (docs/metrics.md).
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>

#include "slimpack/training/step_figures.h"

namespace slimpack {

/// Writes line by line, after the lines of earlier steps. Calls throw as output_failed if a line
/// cannot be written; the file then ends with the line before.
class MetricsFile {
 public:
  /// For the run that writes to `folder`. Touches no file: the lines of an earlier run stay until
  /// the first call of add().
  explicit MetricsFile(const std::filesystem::path& folder) : file_(folder / "metrics.jsonl") {}
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void add(const StepFigures& figures);
  void add(const EvaluationFigures& figures);

 private:
  void write(nlohmann::ordered_json line);
  void open(const nlohmann::ordered_json& first_line);

  std::filesystem::path file_;
  std::ofstream metrics_;
  std::uint64_t bytes_ = 0;  ///< whole lines
};

}  // namespace slimpack
