// The spread of a figure over many steps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace slimpack {

/// The percentile p50 is the smallest value that at least 50% of the values do not exceed.
struct Spread {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double worst = 0;  ///< the largest
};

/// REQUIRES: values is not empty.
[[nodiscard]] Spread spread_of(std::vector<double> values);

/// {"mean": …, "p50": …, "p95": …, "worst": …}
[[nodiscard]] nlohmann::json to_json(const Spread& spread);

}  // namespace slimpack
