// The benchmark's output: tables of 80 columns, and the same figures as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/published/evaluate.h"
#include "bench/published/steps.h"

namespace slimpack::bench {

/// Errors of times and memory by set, what the layout predicted fastest loses to the one that was,
/// errors of all-reduces, what cannot be expressed by reason.
[[nodiscard]] std::string summary_text(const std::vector<Outcome>& outcomes,
                                       const std::vector<AllReduce>& all_reduces,
                                       const HardwareSpec& hardware);

/// A line for each step: measured time and memory with the predictions' errors, or the reason why
/// there is no prediction.
[[nodiscard]] std::string each_text(const std::vector<Outcome>& outcomes);

/// {"format": "slimpack-published-bench", "version": 1, "sets", "not_expressed", "all_reduces",
/// "steps"}. Errors are shares: 0.05 is 5%.
[[nodiscard]] nlohmann::json report_json(const std::vector<Outcome>& outcomes,
                                         const std::vector<AllReduce>& all_reduces,
                                         const HardwareSpec& hardware);

}  // namespace slimpack::bench
