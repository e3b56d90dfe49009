// Medians of measurements, and the spread of a figure over many steps.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace slimpack {

/// The middle value; the mean of the middle two for an even count. REQUIRES: values is not empty.
[[nodiscard]] double median(std::vector<double> values);

/// The percentile p50 is the smallest value that at least 50% of the values do not exceed.
struct Spread {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double worst = 0;  ///< the largest
};

/// With fewer values the 95th percentile is the largest one, and says nothing of its own.
inline constexpr std::size_t kFewestForPercentile = 20;

/// REQUIRES: values is not empty.
[[nodiscard]] Spread step_spread(std::vector<double> values);

/// {"mean": …, "p50": …, "p95": …, "worst": …}
[[nodiscard]] nlohmann::json to_json(const Spread& spread);

}  // namespace slimpack
