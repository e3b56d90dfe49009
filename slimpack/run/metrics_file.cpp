#include "slimpack/run/metrics_file.h"

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "slimpack/base/destination.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/report/training_curve.h"

namespace slimpack {
namespace {

/// nullopt for a line that is not metrics.
std::optional<MetricsPlace> place_of(const std::string& text) try {
  const nlohmann::json line = parse_json(text, "metrics");
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return std::nullopt;
  return MetricsPlace{line["step"].get<std::int64_t>(), line.contains(kEvaluationLoss)};
} catch (const InvalidInput&) {
  return std::nullopt;
}

}  // namespace

std::uint64_t bytes_of_lines_before(const MetricsPlace& first, std::istream& lines) {
  std::uint64_t bytes = 0;
  for (std::string text; std::getline(lines, text) && !lines.eof(); bytes += text.size() + 1) {
    const auto place = place_of(text);
    if (!place || place >= first) break;
  }
  return bytes;
}

void MetricsFile::open(const MetricsPlace& first) {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  std::ifstream earlier(file_);
  bytes_ = bytes_of_lines_before(first, earlier);
  if (bytes_ > 0) std::filesystem::resize_file(file_, bytes_, error);
  metrics_.open(file_, bytes_ > 0 ? std::ios::app : std::ios::trunc);
  if (!metrics_) output_failed("write", file_, errno, elsewhere_);
}

void MetricsFile::add_line(const MetricsPlace& place, std::string line) {
  if (!metrics_.is_open()) open(place);
  line += '\n';
  metrics_ << line << std::flush;
  if (!metrics_) {
    const int cause = errno;
    std::error_code ignored;
    std::filesystem::resize_file(file_, bytes_, ignored);  // readers expect whole lines
    output_failed("write", file_, cause, elsewhere_);
  }
  bytes_ += line.size();
}

void MetricsFile::write(const MetricsPlace& place, nlohmann::ordered_json line) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  line["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  add_line(place, json_text(line));
}

void MetricsFile::add(const StepFigures& figures) {
  write({figures.step, false}, to_json(figures));
}

void MetricsFile::add(const EvaluationFigures& figures) {
  write({figures.step, true}, to_json(figures));
}

}  // namespace slimpack
