#include "slimpack/cost/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/median.h"
#include "slimpack/cost/nnls.h"

namespace slimpack {

namespace {

/// Coefficients x ≥ 0 of Σ x[j]·features[j][row] ≈ targets[row]. A row's error counts divided by
/// its unit.
std::vector<double> fitted(std::vector<std::vector<double>> features, std::vector<double> targets,
                           const std::vector<double>& units) {
  SLIMPACK_CHECK(!units.empty());
  for (const double unit : units) SLIMPACK_CHECK(unit > 0);
  const auto divide = [&](std::vector<double>& column) {
    for (std::size_t row = 0; row < units.size(); ++row) column[row] /= units[row];
  };
  for (auto& feature : features) divide(feature);
  divide(targets);
  return non_negative_least_squares(features, targets);
}

Slice slice_of(const LayerMeasurement& m) {
  return {SequenceId(), m.prefix, m.prefix + m.tokens};
}

double rows_of(const LayerMeasurement& m) {
  return m.slices * static_cast<double>(m.tokens.count());
}

double time_of(const PackCost& cost, const LayerMeasurement& m) {
  return cost.per_pack + m.slices * cost(slice_of(m)) + cost.missing_rows(rows_of(m));
}

std::vector<double> times_of(std::span<const LayerMeasurement> measurements) {
  std::vector<double> times;
  for (const LayerMeasurement& m : measurements)
    times.push_back(static_cast<double>(m.time.count()));
  return times;
}

}  // namespace

FitErrors errors_of(const PackCost& cost, std::span<const LayerMeasurement> measurements) {
  const std::vector<double> times = times_of(measurements);
  const double usual = median(times);
  FitErrors errors;
  double off = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double error = std::abs(time_of(cost, measurements[i]) - times[i]);
    off += error;
    if (error / std::max(times[i], usual) <= errors.largest) continue;
    errors.largest = error / std::max(times[i], usual);
    errors.worst = i;
  }
  errors.mean = off / std::accumulate(times.begin(), times.end(), 0.0);
  return errors;
}

LayerFit fit_layer_cost(std::span<const LayerMeasurement> measurements, const FittedTerms& terms) {
  const Tokens window = terms.window;
  std::vector<double> packs;
  std::vector<double> slices;
  std::vector<double> tokens;
  std::vector<double> pairs;
  std::vector<double> prefixes;
  std::vector<double> window_pairs;
  std::vector<double> window_prefixes;
  std::vector<double> missing_rows;
  std::vector<double> units;
  const std::vector<double> times = times_of(measurements);
  for (const LayerMeasurement& m : measurements) {
    const Slice slice = slice_of(m);
    packs.push_back(1);
    slices.push_back(m.slices);
    tokens.push_back(rows_of(m));
    missing_rows.push_back(PackCost{.per_missing_row = 1}.missing_rows(rows_of(m)));
    units.push_back(std::sqrt(static_cast<double>(m.time.count())));
    pairs.push_back(m.slices * slice.causal_pairs());
    prefixes.push_back(m.slices * static_cast<double>(slice.prefix().count()));
    if (window == Tokens(0)) continue;
    window_pairs.push_back(m.slices * slice.window_pairs(window));
    window_prefixes.push_back(m.slices * static_cast<double>(slice.window_prefix(window).count()));
  }
  std::vector<std::vector<double>> features{packs, slices, tokens, pairs, prefixes};
  if (window > Tokens(0)) features.insert(features.end(), {window_pairs, window_prefixes});
  if (terms.missing_rows) features.push_back(missing_rows);
  const std::vector<double> x = fitted(std::move(features), times, units);
  PackCost time{.per_pack = x[0],
                .per_slice = x[1],
                .per_token = x[2],
                .per_pair = x[3],
                .per_prefix_token = x[4],
                .window = window};
  if (window > Tokens(0)) {
    time.per_window_pair = x[5];
    time.per_window_prefix = x[6];
  }
  if (terms.missing_rows) time.per_missing_row = x.back();
  return {time, errors_of(time, measurements)};
}

EdgeFit fit_edge_time(std::span<const EdgeMeasurement> measurements) {
  std::vector<double> packs;
  std::vector<double> tokens;
  std::vector<double> times;
  for (const EdgeMeasurement& m : measurements) {
    packs.push_back(1);
    tokens.push_back(static_cast<double>(m.tokens.count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const std::vector<double> x = fitted({packs, tokens}, times, times);
  EdgeFit fit{{.per_pack = x[0], .per_token = x[1]}};
  for (std::size_t i = 0; i < times.size(); ++i)
    fit.largest_error =
        std::max(fit.largest_error, std::abs((x[0] + x[1] * tokens[i]) / times[i] - 1));
  return fit;
}

// A sum of squares is convex. Its minimum within bounds is its free minimum, or lies on a bound; on
// a bound one term is given and the other is fitted alone.
EdgeFit fit_part(std::span<const EdgeMeasurement> measurements, const PackCost& whole) {
  struct Errors {
    double squares = 0;
    double largest = 0;
  };
  const auto errors = [&](const EdgeTime& time) {
    Errors sum;
    for (const EdgeMeasurement& m : measurements) {
      const double fitted = time.per_pack + time.per_token * static_cast<double>(m.tokens.count());
      const double error = fitted / static_cast<double>(m.time.count()) - 1;
      sum.squares += error * error;
      sum.largest = std::max(sum.largest, std::abs(error));
    }
    return sum;
  };
  // The coefficient in [0, most] of the other term (constant or per token) that fits best with
  // `given`.
  const auto best_beside = [&](const EdgeTime& given, bool constant, double most) {
    double against = 0;
    double square = 0;
    for (const EdgeMeasurement& m : measurements) {
      const auto tokens = static_cast<double>(m.tokens.count());
      const auto measured = static_cast<double>(m.time.count());
      const double feature = (constant ? 1 : tokens) / measured;
      against += feature * (1 - (given.per_pack + given.per_token * tokens) / measured);
      square += feature * feature;
    }
    return std::clamp(against / square, 0.0, most);
  };
  const EdgeFit free = fit_edge_time(measurements);
  if (free.time.per_pack <= whole.per_pack && free.time.per_token <= whole.per_token) return free;
  EdgeTime by_pack{whole.per_pack, 0};
  by_pack.per_token = best_beside(by_pack, false, whole.per_token);
  EdgeTime by_token{0, whole.per_token};
  by_token.per_pack = best_beside(by_token, true, whole.per_pack);
  const bool first = errors(by_pack).squares <= errors(by_token).squares;
  const EdgeTime& best = first ? by_pack : by_token;
  return {best, errors(best).largest};
}

EdgeTime fit_beyond(std::span<const BeyondMeasurement> measurements) {
  const std::vector<double> packs(measurements.size(), 1);
  std::vector<double> tokens;
  std::vector<double> beyond;
  std::vector<double> times;
  for (const BeyondMeasurement& m : measurements) {
    tokens.push_back(static_cast<double>(m.tokens.count()));
    beyond.push_back(static_cast<double>((m.time - m.known).count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const std::vector<double> terms = fitted({packs, tokens}, beyond, times);
  return {.per_pack = terms[0], .per_token = terms[1]};
}

}  // namespace slimpack
