// Calibration: measured times → coefficients, by non-negative least squares on relative errors.
#pragma once

#include <cstddef>
#include <span>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// One layer, one pass, one MicroPack of `slices` equal slices of `tokens` tokens after `prefix`.
struct LayerMeasurement {
  Tokens tokens;
  Tokens prefix;
  int slices = 1;
  Nanos time;
  double spread = 0;  ///< how much longer the second fastest repetition took, as a share of `time`
};

struct EdgeMeasurement {
  Tokens tokens;
  Nanos time;
};

/// A MicroPack that replicas ran together.
struct MergedMeasurement {
  Tokens tokens;  ///< of the whole MicroPack
  Nanos share;    ///< time of one member's share by itself
  Nanos time;     ///< time of the merged MicroPack
};

template <class Time>
struct Fit {
  Time time;
  double largest_error = 0;  ///< max |fitted / measured − 1|
  std::size_t worst = 0;     ///< the measurement with the largest error; the first of several
};

/// `window`: the layer's, 0 = none; with one, the terms within the window are fitted as well.
/// REQUIRES: at least one measurement, all times positive.
[[nodiscard]] Fit<PackCost> fit_layer_cost(std::span<const LayerMeasurement> measurements,
                                           Tokens window = Tokens(0));
[[nodiscard]] Fit<EdgeTime> fit_edge_time(std::span<const EdgeMeasurement> measurements);

/// As fit_edge_time, for a part of a layer's pass: neither term exceeds that of the `whole` pass.
/// `worst` means nothing here.
[[nodiscard]] Fit<EdgeTime> fit_part(std::span<const EdgeMeasurement> measurements,
                                     const PackCost& whole);

/// The time that merged MicroPacks take beyond their members' shares: non-negative least squares of
/// (per_pack + per_token · tokens − (time − share)) ÷ time. Noise makes some shares too large and
/// others too small; in this sum its errors cancel. REQUIRES: at least one measurement, all times
/// positive.
[[nodiscard]] EdgeTime fit_exchange(std::span<const MergedMeasurement> measurements);

}  // namespace slimpack
