// Layer profile: how long a decoder layer takes on the MicroPacks of a profile.
#pragma once

#include <vector>

#include "slimpack/cost/fit.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {

/// By pass, the measurements to fit and those that are held out.
struct LayerTimes {
  std::vector<LayerMeasurement> forward, backward;
  std::vector<LayerMeasurement> held_out_forward, held_out_backward;
};

/// Measures a layer of the first kind. Points that would take more than a point may are left out;
/// at least one is measured. Every rank calls it. Where a cut-off profile measured the layer, its
/// times.
[[nodiscard]] LayerTimes measure_layer(const ProfileOptions& options, const ProfileRank& rank);

}  // namespace slimpack
