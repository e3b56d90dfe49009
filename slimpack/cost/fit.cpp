#include "slimpack/cost/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/nnls.h"

namespace slimpack {

namespace {

/// Coefficients x ≥ 0 of Σ x[j]·features[j][row] ≈ targets[row], and the largest error.
///
/// Errors are relative to `times`: rows are divided by them, so that a slice of 100 µs counts as
/// much as one of 100 ms.
Fit<std::vector<double>> fit_relative(std::vector<std::vector<double>> features,
                                      std::vector<double> targets,
                                      const std::vector<double>& times) {
  SLIMPACK_CHECK(!times.empty());
  for (const double time : times) SLIMPACK_CHECK(time > 0);
  const auto divide = [&](std::vector<double>& column) {
    for (std::size_t row = 0; row < times.size(); ++row) column[row] /= times[row];
  };
  for (auto& feature : features) divide(feature);
  divide(targets);
  Fit<std::vector<double>> fit{non_negative_least_squares(features, targets)};
  for (std::size_t row = 0; row < times.size(); ++row) {
    double fitted = 0;
    for (std::size_t j = 0; j < features.size(); ++j) fitted += fit.time[j] * features[j][row];
    const double error = std::abs(fitted - targets[row]);
    if (error <= fit.largest_error) continue;
    fit.largest_error = error;
    fit.worst = row;
  }
  return fit;
}

}  // namespace

Fit<PackCost> fit_layer_cost(std::span<const LayerMeasurement> measurements, Tokens window) {
  std::vector<double> packs;
  std::vector<double> slices;
  std::vector<double> tokens;
  std::vector<double> pairs;
  std::vector<double> prefixes;
  std::vector<double> window_pairs;
  std::vector<double> window_prefixes;
  std::vector<double> times;
  for (const LayerMeasurement& m : measurements) {
    const Slice slice{SequenceId(), m.prefix, m.prefix + m.tokens};
    packs.push_back(1);
    slices.push_back(m.slices);
    tokens.push_back(m.slices * static_cast<double>(slice.length().count()));
    pairs.push_back(m.slices * slice.causal_pairs());
    prefixes.push_back(m.slices * static_cast<double>(slice.prefix().count()));
    times.push_back(static_cast<double>(m.time.count()));
    if (window == Tokens(0)) continue;
    window_pairs.push_back(m.slices * slice.window_pairs(window));
    window_prefixes.push_back(m.slices * static_cast<double>(slice.window_prefix(window).count()));
  }
  std::vector<std::vector<double>> features{packs, slices, tokens, pairs, prefixes};
  if (window > Tokens(0)) features.insert(features.end(), {window_pairs, window_prefixes});
  const auto fit = fit_relative(std::move(features), times, times);
  PackCost time{.per_pack = fit.time[0],
                .per_slice = fit.time[1],
                .per_token = fit.time[2],
                .per_pair = fit.time[3],
                .per_prefix_token = fit.time[4],
                .window = window};
  if (window > Tokens(0)) {
    time.per_window_pair = fit.time[5];
    time.per_window_prefix = fit.time[6];
  }
  return {time, fit.largest_error, fit.worst};
}

Fit<EdgeTime> fit_edge_time(std::span<const EdgeMeasurement> measurements) {
  std::vector<double> packs;
  std::vector<double> tokens;
  std::vector<double> times;
  for (const EdgeMeasurement& m : measurements) {
    packs.push_back(1);
    tokens.push_back(static_cast<double>(m.tokens.count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const auto fit = fit_relative({packs, tokens}, times, times);
  return {EdgeTime{.per_pack = fit.time[0], .per_token = fit.time[1]}, fit.largest_error,
          fit.worst};
}

// A sum of squares is convex. Its minimum within bounds is its free minimum, or lies on a bound; on
// a bound one term is given and the other is fitted alone.
Fit<EdgeTime> fit_part(std::span<const EdgeMeasurement> measurements, const PackCost& whole) {
  const auto errors = [&](const EdgeTime& time) {
    Fit<double> fit{0, 0};  // sum of squares, and the largest
    for (const EdgeMeasurement& m : measurements) {
      const double fitted = time.per_pack + time.per_token * static_cast<double>(m.tokens.count());
      const double error = fitted / static_cast<double>(m.time.count()) - 1;
      fit.time += error * error;
      fit.largest_error = std::max(fit.largest_error, std::abs(error));
    }
    return fit;
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
  const Fit<EdgeTime> free = fit_edge_time(measurements);
  if (free.time.per_pack <= whole.per_pack && free.time.per_token <= whole.per_token) return free;
  EdgeTime by_pack{whole.per_pack, 0};
  by_pack.per_token = best_beside(by_pack, false, whole.per_token);
  EdgeTime by_token{0, whole.per_token};
  by_token.per_pack = best_beside(by_token, true, whole.per_pack);
  const bool first = errors(by_pack).time <= errors(by_token).time;
  const EdgeTime& best = first ? by_pack : by_token;
  return {best, errors(best).largest_error};
}

EdgeTime fit_exchange(std::span<const MergedMeasurement> measurements) {
  const std::vector<double> packs(measurements.size(), 1);
  std::vector<double> tokens;
  std::vector<double> beyond;
  std::vector<double> times;
  for (const MergedMeasurement& m : measurements) {
    tokens.push_back(static_cast<double>(m.tokens.count()));
    beyond.push_back(static_cast<double>((m.time - m.share).count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const std::vector<double> terms = fit_relative({packs, tokens}, beyond, times).time;
  return {.per_pack = terms[0], .per_token = terms[1]};
}

}  // namespace slimpack
