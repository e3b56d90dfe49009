#include "slimpack/base/median.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>

namespace slimpack {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Spread step_spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t count = values.size();
  const auto percentile = [&](std::size_t percent) {
    return values[(percent * count + 99) / 100 - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(count), percentile(50), percentile(95), values.back()};
}

nlohmann::json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"p50", spread.p50}, {"p95", spread.p95}, {"worst", spread.worst}};
}

}  // namespace slimpack
