#include "slimpack/packflow/speculate/verification_costs.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"
#include "slimpack/base/progress.h"

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

namespace {

/// One pass of a tree that is a single path, which the cache forgets again.
double pass_seconds(LanguageModel& model, KeyValueCache& cache, std::int64_t rows) {
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(rows), 0);
  std::vector<std::int32_t> parents(tokens.size());
  std::iota(parents.begin(), parents.end(), -1);
  const std::int64_t before = cache.size();
  Stopwatch watch;
  const RowStates states = model.run(cache, {.tokens = tokens, .parents = parents});
  (void)model.logits(states.hidden_TH);
  const double seconds = to_seconds(watch.lap());
  cache.truncate(before);
  return seconds;
}

/// 1, 2, 4, … and the last one itself.
std::vector<std::int64_t> measured_rows(std::int64_t most_rows) {
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 1; r < most_rows; r *= 2) rows.push_back(r);
  rows.push_back(most_rows);
  return rows;
}

}  // namespace

VerificationCosts measure_verification(LanguageModel& model, std::int64_t most_rows) {
  constexpr std::int64_t kText = 128;
  constexpr std::size_t kFewest = 3, kMost = 9;
  constexpr double kEnoughSeconds = 0.3;
  const std::vector<std::int64_t> rows = measured_rows(most_rows);
  KeyValueCache cache = model.make_cache();
  const std::vector<std::int64_t> text(
      static_cast<std::size_t>(std::min(kText, model.shape().max_positions.count())), 0);
  (void)model.run(cache, {.tokens = text});
  std::vector<std::vector<double>> seconds(rows.size());
  std::vector<std::size_t> repeated;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double first = pass_seconds(model, cache, rows[i]);  // warms up
    // A long pass warms up in a small part of its time, so that the first one says enough.
    if (first < kEnoughSeconds)
      repeated.push_back(i);
    else
      seconds[i] = {first};
  }
  double sum = 0;
  // Round by round, so that what slows the machine for a moment slows a bit of everything.
  for (std::size_t round = 0; round < kFewest || (round < kMost && sum < kEnoughSeconds); ++round) {
    for (const std::size_t i : repeated) {
      seconds[i].push_back(pass_seconds(model, cache, rows[i]));
      sum += seconds[i].back();
    }
  }
  std::vector<RowsCost> costs;
  for (std::size_t i = 0; i < rows.size(); ++i) costs.push_back({rows[i], median(seconds[i])});
  return VerificationCosts(std::move(costs));
}

}  // namespace slimpack
