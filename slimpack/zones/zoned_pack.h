// Zoned pack: sequences with their zones as a MicroPack.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/zones/zone.h"

namespace slimpack {

/// A MicroPack of whole sequences, which `replicas` replicas run together. `zones` and `row_zones`
/// are in the order of `ids`; without row zones rows stay where attention has them. Wide zones come
/// first: rows from other nodes are waited for longest.
[[nodiscard]] MicroPack zoned_pack(const SequenceLengths& lengths,
                                   const std::vector<SequenceId>& ids, std::int32_t replicas,
                                   const Zones& zones, const Zones& row_zones = {});

}  // namespace slimpack
