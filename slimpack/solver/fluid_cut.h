// Fluid cut (docs/solver.md, phase 2): pour the sequences into MicroPacks of equal time, cutting
// where a MicroPack is full; forward and backward separately.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

struct FluidCutOptions {
  int packs = 16;           ///< M: no partition has more MicroPacks (the symmetric backward may)
  Tokens granularity{128};  ///< cuts lie at its multiples
  int taper_front = 0;      ///< so many MicroPacks at the front …
  int taper_back = 0;       ///< … and at the back …
  double taper = 1.0;       ///< … shrink linearly towards the end, to this share of the budget
  /// false: backward keeps the forward cuts. The forward slices of each sequence, from its tail,
  /// are packed by forward cost up to the untapered forward budget, in however many MicroPacks.
  bool asymmetric = true;
  /// Whether a sequence that does not fit into what is left of a MicroPack is cut there. false: it
  /// opens the next MicroPack. Then no two sequences are under way at once because a MicroPack
  /// holds the end of one and the begin of the other, which takes memory.
  bool fill = true;

  bool operator==(const FluidCutOptions&) const = default;
};

/// Sequence order for both passes: first the `short_first` shortest, then the others, longest
/// first; ties by id.
[[nodiscard]] std::vector<SequenceId> fluid_order(const SequenceLengths& lengths,
                                                  std::vector<SequenceId> sequences,
                                                  int short_first);

/// The forward partition walks the sequences in `order`, each from its head; the backward partition
/// walks them in the same order, each from its tail, with its own cost. Each uses the smallest time
/// budget with which everything fits into `packs` MicroPacks (to 0.1%), so the last one holds the
/// rest. Cuts lie at multiples of the granularity and leave at least that many tokens on both
/// sides: no slice is shorter unless its sequence is. A MicroPack exceeds its budget only when it
/// holds a single slice that cannot be cut further. The result is always a valid PackPlan
/// (check_plan). It has fewer than `packs` MicroPacks when there are too few places to cut. The
/// costs are those of the stage that paces the pipeline; only their ratios matter. REQUIRES:
/// `order` names distinct, non-empty sequences; packs, granularity ≥ 1; 0 < taper ≤ 1. Cost: about
/// ten times O(packs · log(sequences · length / granularity)) evaluations of the costs, once
/// O(sequences).
[[nodiscard]] PackPlan fluid_cut(const SequenceLengths& lengths,
                                 const std::vector<SequenceId>& order, const PackCost& forward,
                                 const PackCost& backward, const FluidCutOptions& options);

}  // namespace slimpack
