// Fluid cut (design §5, phase 2): pour the sequences into MicroPacks of equal time, cutting where a
// MicroPack is full; forward and backward separately.
#pragma once

#include <functional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// Time of a slice on the stage that paces the pipeline, in any unit.
using SliceCost = std::function<double(const Slice&)>;

struct FluidCutOptions {
  int packs = 16;              ///< M: the budget of an untapered MicroPack is about total / M
  Tokens granularity{128};     ///< slices end at multiples of this or at the sequence's end
  int taper_packs = 0;         ///< so many MicroPacks at either end …
  double taper = 1.0;          ///< … shrink linearly down to this share of the budget
  bool asymmetric = true;      ///< false: backward reuses the forward cuts
};

/// Sequence order for both passes: the `short_first` shortest ahead, then longest first.
[[nodiscard]] std::vector<SequenceId> fluid_order(const SequenceLengths& lengths,
                                                  std::vector<SequenceId> sequences,
                                                  int short_first);

/// The forward partition walks the sequences in `order`, each from its head; the backward partition
/// walks them in the same order, each from its tail. Always a valid PackPlan (check_plan).
/// Cost: O(slices · log(length / granularity)) evaluations of the costs.
[[nodiscard]] PackPlan fluid_cut(const SequenceLengths& lengths,
                                 const std::vector<SequenceId>& order, const SliceCost& forward,
                                 const SliceCost& backward, const FluidCutOptions& options);

}  // namespace slimpack
