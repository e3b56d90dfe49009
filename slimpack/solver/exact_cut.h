// Exact cut (design §5, phase 2): the best MicroPacks of one pass on a coarse grid, by
// mixed-integer programming; an optimum or a bound to measure faster cuts with.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/milp/solve.h"
#include "slimpack/plan/plan.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

/// Time of a pass in a pipeline of so many stages of equal `cost`, without waiting for memory or
/// for the other pass: Σ costs + (stages − 1) · largest cost, in nanoseconds. Exact, in any order
/// of the MicroPacks: from its first to its last unit a critical path runs every MicroPack once
/// and, at each of the stages − 1 hand-overs, one of them again; the largest is never avoided, for
/// it may be any (Pinedo, Scheduling, §6.1: proportionate flow shops).
[[nodiscard]] double pass_time(std::span<const MicroPack> packs, const PackCost& cost, int stages);

struct ExactCutProblem {
  SequenceLengths lengths;            ///< of the whole step
  std::vector<SequenceId> sequences;  ///< those of this replica: distinct, not empty
  Pass pass = Pass::kForward;         ///< forward begins at heads, backward at tails
  PackCost cost;                      ///< of each stage
  int stages = 1;
  Tokens grid{1024};  ///< sequences are cut at multiples of it only
  int packs = 8;      ///< at most so many MicroPacks
};

/// So many granules (pieces of one grid length, or what is left of a sequence) at most.
inline constexpr std::size_t kMaxGranules = 256;

struct ExactCut {
  std::vector<MicroPack> packs;  ///< one pass of a valid plan (check_plan), none empty
  double time = 0;               ///< pass_time of the packs
  double bound = 0;              ///< no cut on this grid into so many packs takes less
  bool optimal = false;          ///< proven, to the limits' relative gap
};

/// Assigns granules to MicroPacks such that pass_time is least, over every assignment that keeps
/// the order within each sequence; which sequences share a MicroPack is free. Adjacent granules in
/// one MicroPack are one slice, so per_slice and per_prefix_token count once for them. Begins with
/// `start` (say, fluid_cut's), and is never worse than it. The bound is the solver's, lowered by
/// 1e-6 for its tolerances. The same arguments give the same answer unless limits.seconds ends the
/// search. REQUIRES (else a SLIMPACK_CHECK fails): costs ≥ 0; stages, packs, grid ≥ 1; at most
/// kMaxGranules; `start` is one pass of a valid plan of these sequences in this direction, on the
/// grid, with at most `packs` MicroPacks. Cost: up to the limits.
[[nodiscard]] ExactCut exact_cut(const ExactCutProblem& problem,
                                 const std::vector<MicroPack>& start,
                                 const milp::SolveLimits& limits);

}  // namespace slimpack
