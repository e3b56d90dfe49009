// Partition: which zone each sequence of a batch gets, by Zeppelin (arXiv:2509.21841) and by the
// systems that it is compared with.
#pragma once

#include <cstdint>
#include <optional>

#include "slimpack/base/units.h"
#include "slimpack/workload/slice.h"
#include "slimpack/zones/zone.h"

namespace slimpack {

/// The ranks of a batch and what they may hold.
struct ZoneProblem {
  std::int32_t ranks = 1;
  LinkMap links;
  Tokens rank_tokens{0};  ///< the most that a rank may hold in attention's layout
};

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

/// Rings of `size` neighbouring ranks, as TransformerEngine's context parallelism has them: each
/// sequence, longest first, goes to the ring with the least Σ length² that has room. nullopt where
/// none has. If `size` is all ranks, there is one ring, which has room for whatever they can hold.
[[nodiscard]] std::optional<Zones> ring_zones(const SequenceLengths& lengths,
                                              const ZoneProblem& problem, std::int32_t size);

/// Hybrid data parallelism (ByteScale, arXiv:2502.21231): each sequence gets so many neighbouring
/// ranks that none takes more than `bound` of it, those with the least Σ length² ÷ ranks; longest
/// first. Throws InvalidInput as zeppelin_zones. REQUIRES: bound ≤ rank_tokens.
[[nodiscard]] Zones hybrid_zones(const SequenceLengths& lengths, const ZoneProblem& problem,
                                 Tokens bound);

/// All ranks share the sequences that one rank cannot hold; the others go, longest first, to the
/// rank with the least Σ length² that has room. Throws InvalidInput as zeppelin_zones.
[[nodiscard]] Zones long_zones(const SequenceLengths& lengths, const ZoneProblem& problem);

}  // namespace slimpack
