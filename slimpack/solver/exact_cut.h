// Exact cut (docs/solver.md, phase 2): the best MicroPacks of one pass on a coarse grid, by
// mixed-integer programming. Its optimum or its bound says how good faster cuts are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/milp/solve.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"

namespace slimpack {

/// Nanoseconds of a pass in a pipeline whose stages all have this cost, when nothing waits for
/// memory or for the other pass: Σ costs + (stages − 1) · largest cost. This is exact in any order
/// of the MicroPacks. The critical path runs every MicroPack once and, at each of the stages − 1
/// hand-overs, the largest once more (Pinedo, Scheduling, §6.1: proportionate flow shops).
[[nodiscard]] double pass_time(std::span<const MicroPack> packs, const PackCost& cost, int stages);

/// One pass of one replica: what exact_cut solves and CutModel states.
struct ExactCutProblem {
  SequenceLengths lengths;            ///< of the whole step
  std::vector<SequenceId> sequences;  ///< of this replica: distinct, at least one
  Pass pass = Pass::kForward;         ///< forward begins at heads, backward at tails
  PackCost cost;                      ///< of each stage
  int stages = 1;
  Tokens grid{1024};  ///< sequences are cut only at its multiples
  int packs = 8;      ///< the most MicroPacks
};

/// The most granules. A granule is a piece of one grid length, or the rest of a sequence.
inline constexpr std::size_t kMaxGranules = 256;

struct ExactCut {
  std::vector<MicroPack> packs;  ///< one pass of a valid plan (check_plan), none empty
  double time = 0;               ///< pass_time of the packs
  double bound = 0;              ///< no cut on this grid into so many packs takes less
  bool optimal = false;          ///< proven, to the limits' relative gap
};

/// Assigns granules to MicroPacks so that pass_time is least. Every assignment counts that keeps
/// the order within each sequence; any sequences may share a MicroPack. Adjacent granules in one
/// MicroPack are one slice, so per_slice and per_prefix_token count once for them. The search
/// begins with `start` (say, fluid_cut's), and the answer is never worse. The bound is the
/// solver's, lowered by 1e-6 for its tolerances. The same arguments give the same answer unless
/// limits.seconds ends the search. REQUIRES (else a SLIMPACK_CHECK fails): costs ≥ 0; stages,
/// packs, grid ≥ 1; at most kMaxGranules; `start` is one pass of a valid plan of these sequences in
/// this direction, on the grid, with at most `packs` MicroPacks. Cost: up to the limits.
[[nodiscard]] ExactCut exact_cut(const ExactCutProblem& problem,
                                 const std::vector<MicroPack>& start,
                                 const milp::SolveLimits& limits);

}  // namespace slimpack
