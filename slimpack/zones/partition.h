// Partition: which zone each sequence of a batch gets by Zeppelin (arXiv:2509.21841).
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/slice.h"
#include "slimpack/zones/zone.h"

namespace slimpack {

/// The ranks of a batch and what they may hold.
struct ZoneProblem {
  std::int32_t ranks = 1;
  LinkMap links;
  Tokens rank_tokens{0};  ///< the most that a rank may hold in attention's layout
};

/// More tokens than any sequence has.
inline constexpr Tokens kNeverShared{1'000'000'000};

/// From how many tokens on the pairs of a sequence take each of so many ranks longer than what
/// sharing it adds: pairs L²/2 against a time per pack and one per token; at least 1. `alone`,
/// `shared`: costs of a pack that one rank runs, or all of them. kNeverShared where no pair counts:
/// layers with a window have none whose number grows with L².
[[nodiscard]] Tokens crossover(const PackCost& alone, const PackCost& shared, std::int32_t ranks);

/// From how many tokens on a sequence's attention hides the messages of a ring.
struct ZoneCrossovers {
  Tokens node{0};    ///< of all ranks of a node
  Tokens across{0};  ///< of all ranks of two nodes
};

/// Zeppelin's two algorithms. The paper's listings are pictures, so this is our reading of its
/// text:
///  1. Nodes. Sequences that are longer than a bound span nodes, as many as they need at that
///     bound. The others go, longest first, to the node with the fewest tokens. The bound begins at
///     the tokens that a node holds, or at `across` if that is less, and falls to the next shorter
///     sequence until every node holds its tokens.
///  2. Ranks of a node. Sequences that are longer than a bound run in a ring of all ranks of the
///     node; the others go to the rank with the least Σ length² that has room. The bound begins at
///     the tokens that a rank holds, or at `node` if that is less.
/// Throws InvalidInput where the ranks cannot hold the tokens. REQUIRES: whole nodes, or a part of
/// one.
[[nodiscard]] Zones zeppelin_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                                   const ZoneCrossovers& crossovers);

}  // namespace slimpack
