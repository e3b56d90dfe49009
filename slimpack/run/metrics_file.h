// metrics.jsonl: the figures of a run's steps and evaluations (docs/metrics.md).
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "slimpack/run/step_figures.h"

namespace slimpack {

/// A line's place in the order. A step's evaluation comes after the step.
struct MetricsPlace {
  std::int64_t step = 0;
  bool evaluation = false;

  auto operator<=>(const MetricsPlace&) const = default;
};

/// The bytes of the lines that a run keeps if its first new line has the place `first`: all whole
/// lines that come before it, up to the first line that is not metrics.
[[nodiscard]] std::uint64_t bytes_of_lines_before(const MetricsPlace& first, std::istream& lines);

/// Writes line by line, after the lines of earlier steps. Calls throw as output_failed if a line
/// cannot be written; the file then ends with the line before.
class MetricsFile {
 public:
  /// For the run that writes to `folder`. Touches no file: the lines of an earlier run stay until
  /// the first call. `elsewhere`: the remedy where nothing can be written.
  explicit MetricsFile(const std::filesystem::path& folder,
                       std::string elsewhere = "set output.dir to another folder")
      : file_(folder / "metrics.jsonl"), elsewhere_(std::move(elsewhere)) {}
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void add(const StepFigures& figures);
  void add(const EvaluationFigures& figures);
  /// Adds a line of other figures. `line`: JSON text with the "step" of its place, without a line
  /// end.
  void add_line(const MetricsPlace& place, std::string line);

 private:
  void write(const MetricsPlace& place, nlohmann::ordered_json line);
  void open(const MetricsPlace& first);

  std::filesystem::path file_;
  std::string elsewhere_;
  std::ofstream metrics_;
  std::uint64_t bytes_ = 0;  ///< whole lines
};

}  // namespace slimpack
