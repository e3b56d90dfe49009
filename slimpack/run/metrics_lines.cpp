#include "slimpack/run/metrics_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace slimpack {
namespace {

/// nullopt for a line that is not metrics.
std::optional<MetricsPlace> place_of(const nlohmann::json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return std::nullopt;
  return MetricsPlace{line["step"].get<std::int64_t>(), line.contains(kEvaluationLoss)};
}

}  // namespace

std::uint64_t bytes_of_lines_before(const MetricsPlace& first, std::istream& lines) {
  std::uint64_t bytes = 0;
  for (std::string text; std::getline(lines, text) && !lines.eof(); bytes += text.size() + 1) {
    const auto place = place_of(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false));
    if (!place || place >= first) break;
  }
  return bytes;
}

}  // namespace slimpack
