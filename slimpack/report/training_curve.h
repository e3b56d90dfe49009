// Training curve: loss and speed of a run's steps, as metrics.jsonl has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// The field of metrics.jsonl that lines of evaluations alone have.
inline constexpr const char* kEvaluationLoss = "evaluation_loss";
/// The field with the name of the held-out set, where there are several.
inline constexpr const char* kEvaluationName = "evaluation_name";

struct CurvePoint {
  std::int64_t step = 0;  ///< from 1 on
  double loss = 0;
  double tokens_per_second = 0;
  Nanos step_time;
  Nanos predicted_time;

  bool operator==(const CurvePoint&) const = default;
};

struct CurveEvaluation {
  std::int64_t step = 0;  ///< steps done before it
  double loss = 0;
  std::string name = {};  ///< of the held-out set; empty = it has none

  bool operator==(const CurveEvaluation&) const = default;
};

struct TrainingCurve {
  std::vector<CurvePoint> steps;
  std::vector<CurveEvaluation> evaluations;

  bool operator==(const TrainingCurve&) const = default;
};

/// Reads the lines of metrics.jsonl (docs/metrics.md). A last line without its end, which a killed
/// run leaves, is no line. Throws InvalidInput naming `origin` and the line.
[[nodiscard]] TrainingCurve training_curve_from_lines(std::string_view text,
                                                      std::string_view origin);

/// At most `most` of the points: equally far apart, the first and the last one among them.
/// REQUIRES: most >= 2.
[[nodiscard]] std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points,
                                              std::size_t most);

}  // namespace slimpack
