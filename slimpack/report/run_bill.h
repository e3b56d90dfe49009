// Run bill: the time, the GPU-hours and the money that a whole run takes, from the speed of its
// steps.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/cost/known_error.h"

namespace slimpack {

/// The run that a bill is for.
struct RunTerms {
  double tokens = 0;              ///< that the run trains on
  std::int64_t ranks = 1;         ///< GPUs that it occupies
  std::optional<double> price{};  ///< of a GPU for an hour, in any currency
};

/// A way to do the run.
struct RunSpeed {
  std::string name;
  double tokens_per_second = 0;  ///< over all steps together
  /// How many times as long as the mean step the longest one takes; absent of a single step.
  std::optional<double> worst_step = std::nullopt;
};

/// The first run stays first, the others follow by speed.
[[nodiscard]] std::vector<RunSpeed> fastest_behind_first(std::vector<RunSpeed> runs);

/// Hours of the run; GPU-hours and money follow from it. REQUIRES: a speed above 0.
[[nodiscard]] double run_hours(const RunTerms& terms, const RunSpeed& speed);

/// A run, and the ways to do it.
struct RunBill {
  RunTerms terms;
  std::vector<RunSpeed> runs;
  KnownError error;  ///< of the speeds
};

/// A row for each way to do the run, and how much more it takes than the first one. Below, how far
/// the figures of the first may be off. Empty without `runs`. Lines have at most `columns` columns.
[[nodiscard]] std::string bill_text(const RunBill& bill, int columns);

/// {"tokens", "ranks", "price_per_gpu_hour", "known_error": as a share, "runs": [{"name", "hours",
/// "gpu_hours", "cost", "more", "worst_step"}]}. "more" is a share of the first one's; the price
/// and costs are null where none is known.
[[nodiscard]] nlohmann::ordered_json to_json(const RunBill& bill);

}  // namespace slimpack
