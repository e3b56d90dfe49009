// Fixed packing: what most trainers run today.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// Best-fit decreasing (Johnson 1973; Megatron, TRL): whole sequences, longest first, each into the
/// fullest pack of `capacity` tokens that still has room. Forward and backward are the same packs
/// in the order in which they were opened. Throws InvalidInput when a sequence exceeds the
/// capacity.
[[nodiscard]] PackPlan packed_plan(const SequenceLengths& lengths,
                                   const std::vector<SequenceId>& sequences, Tokens capacity);

}  // namespace slimpack
