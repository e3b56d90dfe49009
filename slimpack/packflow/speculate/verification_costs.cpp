#include "slimpack/packflow/speculate/verification_costs.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

VerificationCosts::VerificationCosts(std::vector<RowsCost> measured)
    : points_(std::move(measured)) {
  SLIMPACK_CHECK(!points_.empty() && points_.front().rows == 1);
}

VerificationCosts::Place VerificationCosts::place(std::int64_t rows) const {
  if (points_.size() == 1) return {0, 0};
  const auto after = std::ranges::upper_bound(points_, rows, {}, &RowsCost::rows);
  const auto point =
      std::clamp<std::ptrdiff_t>(after - points_.begin() - 1, 0, std::ssize(points_) - 2);
  const RowsCost& from = points_[static_cast<std::size_t>(point)];
  const RowsCost& to = points_[static_cast<std::size_t>(point) + 1];
  return {static_cast<std::size_t>(point),
          static_cast<double>(rows - from.rows) / static_cast<double>(to.rows - from.rows)};
}

double VerificationCosts::seconds(std::int64_t rows) const {
  const auto [point, share] = place(rows);
  double from = 0;
  for (std::size_t i = 0; i <= point; ++i) from = std::max(from, points_[i].seconds);
  if (point + 1 == points_.size()) return from;
  const double to = std::max(from, points_[point + 1].seconds);
  return from + share * (to - from);
}

void VerificationCosts::observe(std::int64_t rows, double seconds) {
  constexpr double kRate = 0.1, kRateOfOthers = 0.02, kMostOff = 0.25;
  const double expected = this->seconds(rows);
  const double off = std::clamp(seconds - expected, -kMostOff * expected, kMostOff * expected);
  const auto [point, place_share] = place(rows);
  const double share = std::min(place_share, 1.0);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const double near = i == point ? 1 - share : i == point + 1 ? share : 0;
    // A pass of many rows is off by more seconds than one of few: that is no news of the few.
    const double most = kMostOff * points_[i].seconds;
    points_[i].seconds +=
        std::clamp((kRateOfOthers + (kRate - kRateOfOthers) * near) * off, -most, most);
  }
}

}  // namespace slimpack
