// Candidates: the ways of cutting a step that the planner compares.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/solver/fluid_cut.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct Candidate {
  int short_first = 0;  ///< shortest sequences ahead of the longest
  FluidCutOptions cut;
};

/// Most MicroPacks per stage and pass that are tried. More of them lower the bubble by less than
/// 1%, while the time to plan grows with them.
inline constexpr int kMostPacksPerStage = 128;

/// Fewest MicroPacks first. Depends on the work alone, never on the memory cap, so that a larger
/// cap only adds choices.
[[nodiscard]] std::vector<Candidate> plan_candidates(const SequenceLengths& lengths, int stages,
                                                     Tokens granularity);

/// Pieces of at most `granularity` tokens that the sequences consist of.
[[nodiscard]] std::int64_t total_granules(const SequenceLengths& lengths, Tokens granularity);

}  // namespace slimpack
