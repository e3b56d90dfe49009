// Finds the lines of an earlier run in metrics.jsonl.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>

namespace slimpack {

inline constexpr const char* kEvaluationLoss = "evaluation_loss";  ///< in lines of evaluations only

/// The bytes of the lines that a run keeps if its first new line is `first_line`: all whole lines
/// that come before it, up to the first line that is not metrics. A step's evaluation comes after
/// the step.
[[nodiscard]] std::uint64_t bytes_of_lines_before(const nlohmann::ordered_json& first_line,
                                                  std::istream& lines);

}  // namespace slimpack
