#include "slimpack/cost/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/cost/nnls.h"

namespace slimpack {

namespace {

/// Coefficients x ≥ 0 of Σ x[j]·features[j][row] ≈ times[row], and the largest relative error.
///
/// Rows are divided by their time, so the target is all ones and the sum of squares is that of
/// relative errors: a slice of 100 µs counts as much as one of 100 ms.
Fit<std::vector<double>> fit_relative(std::vector<std::vector<double>> features,
                                      const std::vector<double>& times) {
  SLIMPACK_CHECK(!times.empty());
  for (const double time : times) SLIMPACK_CHECK(time > 0);
  for (auto& feature : features) {
    for (std::size_t row = 0; row < times.size(); ++row) feature[row] /= times[row];
  }
  const std::vector<double> ones(times.size(), 1.0);
  Fit<std::vector<double>> fit{non_negative_least_squares(features, ones)};
  for (std::size_t row = 0; row < times.size(); ++row) {
    double ratio = 0;
    for (std::size_t j = 0; j < features.size(); ++j) ratio += fit.time[j] * features[j][row];
    fit.largest_error = std::max(fit.largest_error, std::abs(ratio - 1));
  }
  return fit;
}

}  // namespace

Fit<LayerTime> fit_layer_time(std::span<const LayerMeasurement> measurements) {
  std::vector<double> packs;
  std::vector<double> slices;
  std::vector<double> tokens;
  std::vector<double> pairs;
  std::vector<double> prefixes;
  std::vector<double> times;
  for (const LayerMeasurement& m : measurements) {
    const Slice slice{SequenceId(), m.prefix, m.prefix + m.tokens};
    packs.push_back(1);
    slices.push_back(m.slices);
    tokens.push_back(m.slices * static_cast<double>(slice.length().count()));
    pairs.push_back(m.slices * slice.causal_pairs());
    prefixes.push_back(m.slices * static_cast<double>(slice.prefix().count()));
    times.push_back(static_cast<double>(m.time.count()));
  }
  const auto fit = fit_relative({packs, slices, tokens, pairs, prefixes}, times);
  return {LayerTime{.per_pack = fit.time[0],
                    .per_slice = fit.time[1],
                    .per_token = fit.time[2],
                    .per_pair = fit.time[3],
                    .per_prefix_token = fit.time[4]},
          fit.largest_error};
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
  const auto fit = fit_relative({packs, tokens}, times);
  return {EdgeTime{.per_pack = fit.time[0], .per_token = fit.time[1]}, fit.largest_error};
}

}  // namespace slimpack
