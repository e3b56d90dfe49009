// Recompute profile: what a layer's backward takes with each recomputation that plans choose from,
// and the part of it that can be put off.
#pragma once

#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {

/// Sets elementwise and weight_gradient of `cost`, and on a device other than a CPU `again`.
/// Measures a layer of the first kind. REQUIRES: its shape and the times of both passes. Every rank
/// calls it, and all decide alike. Takes about a quarter of the budget, and on a device that it
/// heats first three quarters.
void measure_backward_parts(Costs& cost, const ProfileOptions& options, const ProfileRank& rank);

}  // namespace slimpack
