// Finds the lines of an earlier run in metrics.jsonl.
#pragma once

#include <compare>
#include <cstdint>
#include <istream>

namespace slimpack {

inline constexpr const char* kEvaluationLoss = "evaluation_loss";  ///< in lines of evaluations only

/// A line's place in the order. A step's evaluation comes after the step.
struct MetricsPlace {
  std::int64_t step = 0;
  bool evaluation = false;

  auto operator<=>(const MetricsPlace&) const = default;
};

/// The bytes of the lines that a run keeps if its first new line has the place `first`: all whole
/// lines that come before it, up to the first line that is not metrics.
[[nodiscard]] std::uint64_t bytes_of_lines_before(const MetricsPlace& first, std::istream& lines);

}  // namespace slimpack
