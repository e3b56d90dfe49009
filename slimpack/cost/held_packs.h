// Held packs: what one replica holds of its MicroPacks.
#pragma once

#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// A replica's packs, with its shares of merged packs as slices of shorter sequences, and the
/// lengths of these. Sequences of which it holds nothing have no slice and no length.
struct HeldPacks {
  PackPlan packs;
  SequenceLengths lengths;
};

/// `lengths` are indexed by the packs' SequenceIds.
[[nodiscard]] HeldPacks held_packs(const PackPlan& packs, const SequenceLengths& lengths,
                                   ReplicaId replica);

/// The slices of each zone as a MicroPack of their own, which its members run together.
[[nodiscard]] std::vector<MicroPack> packs_by_zone(const MicroPack& pack);

}  // namespace slimpack
