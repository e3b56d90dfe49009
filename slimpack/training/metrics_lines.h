// The lines that an earlier run has left in metrics.jsonl.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>

namespace slimpack {

inline constexpr const char* kEvaluationLoss = "evaluation_loss";  ///< in lines of evaluations only

/// The bytes of the whole lines that stand before `first_line`, up to the first line that is none
/// of metrics: what a run that goes on with it keeps. A step's evaluation comes after the step.
[[nodiscard]] std::uint64_t bytes_of_lines_before(const nlohmann::ordered_json& first_line,
                                                  std::istream& lines);

}  // namespace slimpack
