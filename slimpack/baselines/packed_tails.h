// Packs for documents of unequal length, cut into slices of one size: DSPP, the successor of
// SlimPipe in its public code.
#pragma once

#include <vector>

#include "slimpack/baselines/makers.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Groups of sequences, each a micro-batch (slices_at). A group has at most one sequence that is
/// longer than a slice, its first. The tail of the long sequence, which is its last and shorter
/// slice, and the other sequences of the group have at most `slice` tokens. Groups with a long
/// sequence come first, the longest one leading. `cost`: what a slice takes, by which the tails'
/// packs are balanced. Every sequence is in exactly one group. Deterministic. REQUIRES: slice ≥ 1,
/// every length ≥ 1. Cost: O(n log n) for each number of packs that is tried, mostly two.
[[nodiscard]] SequencePacks tail_groups(const SequenceLengths& lengths, Tokens slice,
                                        const PackCost& cost);

}  // namespace slimpack
