#include "slimpack/report/training_curve.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"

namespace slimpack {
namespace {

void add_line(TrainingCurve& curve, const JsonFields& line) {
  constexpr std::int64_t kMostExact = std::int64_t{1} << 53;
  const std::int64_t step = line.integer("step", 0, kMostExact);
  if (line.has(kEvaluationLoss)) {
    curve.evaluations.push_back({step, line.number(kEvaluationLoss),
                                 line.has(kEvaluationName) ? line.text(kEvaluationName) : ""});
    return;
  }
  curve.steps.push_back({step, line.number("loss"), line.number("tokens_per_second"),
                         Nanos(line.integer("step_ns", 0, kMostExact)),
                         Nanos(line.integer("predicted_step_ns", 0, kMostExact))});
}

}  // namespace

TrainingCurve training_curve_from_lines(std::string_view text, std::string_view origin) {
  TrainingCurve curve;
  for (std::size_t number = 1, begin = 0;; ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return curve;
    const std::string where = fmt::format("{}: line {}", origin, number);
    const nlohmann::json line = parse_json(text.substr(begin, end - begin), where);
    add_line(curve, JsonFields(line, where));
    begin = end + 1;
  }
}

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<CurvePoint> kept;
  for (std::size_t i = 0; i < most; ++i)
    kept.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return kept;
}

}  // namespace slimpack
