// Recompute choices: which policies of all layers a step is planned with.
#pragma once

#include <span>
#include <vector>

#include "slimpack/planner/planner.h"

namespace slimpack {

/// Policies of all layers of a step.
struct RecomputeChoice {
  RecomputeByLayer recompute;
  bool mixed = false;  ///< layers of a stage differ

  bool operator==(const RecomputeChoice&) const = default;
};

/// The policies that the choices allow, each for all layers; and where layers may differ,
/// mixtures. The cheapest policy first, then cheapest first:
/// 1. Of the allowed policies only those count that no mixture of two others beats in both the
///    bytes that a token keeps on the device and the time that these sequences take: bytes and time
///    of a mixture lie between those of its parts, so others could not lead to the cheapest that
///    fits.
/// 2. Of each two neighbours among them, the first n layers of every stage take the one that keeps
///    less: those run last in backward, when the others have freed their rows. Adding as much to
///    every stage keeps the stages balanced.
/// The memory cap plays no part, so that it only filters.
/// Cost: O(sequences · policies + choices · layers).
[[nodiscard]] std::vector<RecomputeChoice> recompute_choices(const Job& job,
                                                             const SequenceLengths& lengths,
                                                             const Choices& choices,
                                                             const Costs& cost);

/// True when the longest sequence alone keeps more than the cap on some stage, in any plan.
[[nodiscard]] bool never_fits(const Job& job, const SequenceLengths& lengths,
                              const Choices& choices, const RecomputingCosts& cost);

/// Costs below which no layer of an allowed policy gets, nor any mixture of them: for bounds.
[[nodiscard]] RecomputingCosts cheapest_cost(const Costs& cost, std::span<const Recompute> allowed);

}  // namespace slimpack
