// Known error: how far predictions were off where steps were measured, by what the costs come from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// Percent of what was measured. docs/prediction.md has the runs.
struct KnownError {
  double time = 0;               ///< of step times, on average
  double worst_time = 0;         ///< of the step that was furthest off
  double memory = 0;             ///< of a rank's memory, the largest
  std::string_view times_from;   ///< which steps, for people
  std::string_view memory_from;  ///< likewise

  bool operator==(const KnownError&) const = default;
};

/// The known error by where the costs come from: measured on a CPU or a GPU, measured of layers
/// under autograd, or computed from hardware figures.
[[nodiscard]] KnownError known_error(const Costs& cost);

/// "± 17%": behind a predicted time.
[[nodiscard]] std::string time_range(const KnownError& error);

/// "± 17% on average and 43% at worst (…); memory 11% (…)".
[[nodiscard]] std::string describe(const KnownError& error);

/// {"time": 0.17, "worst_time": 0.43, "memory": 0.11, "times_from": …, "memory_from": …}: shares.
[[nodiscard]] nlohmann::json to_json(const KnownError& error);

}  // namespace slimpack
