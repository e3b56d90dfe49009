// Exchange profile: what ranks of this machine cost each other, and host memory a rank.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/profile/profile.h"

namespace slimpack {

/// Adds transfers between stages and, on a device, to host memory, the reduction of gradients, and
/// what merged MicroPacks take beyond each member's share. REQUIRES: the layers' times.
void measure_exchanges(const ProfileOptions& options, Costs& cost);

}  // namespace slimpack
