// Paired cut: MicroPacks that both passes run. Few sequences are cut, so that few MicroPacks wait
// for each other's backward.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Steps, for the smallest time budget (to 0.1%) with which everything fits into `packs`
/// MicroPacks:
///  1. A sequence above the budget is cut from its head at multiples of the granularity. Each of
///     its slices opens a MicroPack.
///  2. Every other sequence stays whole. It joins the MicroPack that it fills best, or opens one.
///  3. Backward runs the same MicroPacks: those of a cut sequence in reverse, else in the order of
///     forward.
/// Sequences are taken in `order`. `both`: the costs of forward and backward together. The result
/// is a valid PackPlan of at most `packs` paired MicroPacks (regroup.h). REQUIRES: as
/// fluid_cut. Cost: about 20 times O((sequences + packs) · log).
[[nodiscard]] PackPlan paired_cut(const SequenceLengths& lengths,
                                  const std::vector<SequenceId>& order, const PackCost& both,
                                  int packs, Tokens granularity);

}  // namespace slimpack
