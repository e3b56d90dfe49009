// Calibration: measured times → coefficients, by non-negative least squares; and the warning that
// they are far from the measurements.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// One layer, one pass, one MicroPack of `slices` equal slices of `tokens` tokens after `prefix`.
struct LayerMeasurement {
  Tokens tokens;
  Tokens prefix;
  int slices = 1;
  Nanos time;
  double spread = 0;  ///< how far repetitions lie around `time`, as a share of it
};

struct EdgeMeasurement {
  Tokens tokens;
  Nanos time;
};

/// A MicroPack that took longer than what is known of it: one that replicas ran together, or whose
/// backward computed products again.
struct BeyondMeasurement {
  Tokens tokens;  ///< of the whole MicroPack; where keys travel, queries with as many bytes
  Nanos known;    ///< of one member's share by itself, or of the rest of backward
  Nanos time;     ///< of it all
};

/// How far a cost is from measurements.
struct FitErrors {
  double mean = 0;        ///< Σ |fitted − measured| ÷ Σ measured: what a step is off at most
  double largest = 0;     ///< max |fitted − measured| ÷ the larger of measured and the median
  std::size_t worst = 0;  ///< the measurement with the largest error; the first of several
};

struct LayerFit {
  PackCost time;
  FitErrors errors;
};

/// The terms of a layer's cost that are fitted.
struct FittedTerms {
  bool prefix = true;         ///< pairs and prefixes: false for layers without attention
  Tokens window{0};           ///< the layer's; 0 = none: no terms within a window
  bool missing_rows = false;  ///< PackCost::per_missing_row
};

/// Least Σ (fitted − measured)² ÷ measured. So a MicroPack counts by its time, as it does in a
/// step, and a long one still does not drown all others. REQUIRES: at least one measurement, all
/// times positive, and no window without pairs.
[[nodiscard]] LayerFit fit_layer_cost(std::span<const LayerMeasurement> measurements,
                                      const FittedTerms& terms = {});

/// REQUIRES: at least one measurement.
[[nodiscard]] FitErrors errors_of(const PackCost& cost,
                                  std::span<const LayerMeasurement> measurements);

struct EdgeFit {
  EdgeTime time;
  double largest_error = 0;  ///< max |fitted / measured − 1|
};

/// Least squares of relative errors, because a latency shows in the shortest times. REQUIRES: at
/// least one measurement, all times positive.
[[nodiscard]] EdgeFit fit_edge_time(std::span<const EdgeMeasurement> measurements);

/// The fit of fit_edge_time for a part of a layer's pass. Neither term exceeds that of the `whole`
/// pass. REQUIRES: at least one measurement, all times positive.
[[nodiscard]] EdgeFit fit_part(std::span<const EdgeMeasurement> measurements,
                               const PackCost& whole);

/// The time that MicroPacks take beyond what is known: non-negative least squares of
/// (per_pack + per_token · tokens − (time − known)) ÷ time. Noise makes some known times too large
/// and others too small; in this sum its errors cancel. REQUIRES: at least one measurement, all
/// times positive.
[[nodiscard]] EdgeTime fit_beyond(std::span<const BeyondMeasurement> measurements);

/// The measurement from which a layer's fit is furthest.
struct WorstFit {
  LayerMeasurement measurement;
  Pass pass = Pass::kForward;
  double error = 0;  ///< FitErrors::largest
};

/// Whether the fit is more than 30% off because other load disturbed the measurement.
[[nodiscard]] bool disturbed(const WorstFit& worst);

/// One line with the error, its measurement and the likely cause; nullopt for an error of 30% or
/// less. The cause is other load on the machine if the measurement does not repeat. If it does, it
/// is a kernel whose times have another form than the cost model.
[[nodiscard]] std::optional<std::string> fit_warning(const WorstFit& worst);

/// x ≥ 0 that minimises ‖Σ x[j]·columns[j] − target‖₂ (Lawson and Hanson 1974, ch. 23). For
/// dependent columns it is one of the minimisers, with few columns in use.
/// REQUIRES: every column as long as `target`; finite values.
/// Cost: O(rows · columns²) per change of the active set; usually one change per column.
[[nodiscard]] std::vector<double> non_negative_least_squares(
    const std::vector<std::vector<double>>& columns, std::span<const double> target);

}  // namespace slimpack
