#include "slimpack/training/metrics_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace slimpack {
namespace {

/// A line's place in the order: its step, and whether it is an evaluation. nullopt for a line that
/// is not metrics.
template <class Json>
std::optional<std::pair<std::int64_t, bool>> place_of(const Json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return std::nullopt;
  return std::pair(line["step"].template get<std::int64_t>(), line.contains(kEvaluationLoss));
}

}  // namespace

std::uint64_t bytes_of_lines_before(const nlohmann::ordered_json& first_line, std::istream& lines) {
  std::uint64_t bytes = 0;
  for (std::string text; std::getline(lines, text) && !lines.eof(); bytes += text.size() + 1) {
    const auto place = place_of(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false));
    if (!place || place >= place_of(first_line)) break;
  }
  return bytes;
}

}  // namespace slimpack
