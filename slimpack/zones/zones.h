// Zones of a batch: which ranks run each sequence together, by Zeppelin (arXiv:2509.21841).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/pack_cost.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// The elements of a zone's ranks, in a list by rank.
template <class Values>
[[nodiscard]] auto of_zone(Values& values, const Zone& zone) {
  return std::span(values).subspan(static_cast<std::size_t>(zone.first),
                                   static_cast<std::size_t>(zone.size));
}

/// The zones of a batch, by SequenceId.
using Zones = std::vector<Zone>;

enum class ZoneKind : std::uint8_t {
  kLocal,   ///< one rank
  kNode,    ///< a ring inside a node
  kAcross,  ///< a ring over nodes
};

[[nodiscard]] inline ZoneKind zone_kind(const LinkMap& links, const Zone& zone) {
  if (zone.size == 1) return ZoneKind::kLocal;
  return links.node(zone.first) == links.node(zone.end() - 1) ? ZoneKind::kNode : ZoneKind::kAcross;
}

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

/// Says which ranks hold the rows of a sequence outside of attention, so that products and norms
/// are balanced by tokens (remapping, Zeppelin). Begins with the zones of attention. Then, as long
/// as the rank with most rows has more than its share, one of its sequences goes to the rank with
/// the fewest rows, of its node or of all, or to all ranks of its node: the one that leaves the
/// fewest rows on the fullest of these, and of equal ones the shortest. So most rows stay where
/// they are, and others mostly in their node. Cost: O(sequences) for each sequence that moves.
[[nodiscard]] Zones row_zones(const SequenceLengths& lengths, const Zones& zones,
                              const LinkMap& links, std::int32_t ranks);

/// A MicroPack of whole sequences, which `replicas` replicas run together. `zones` and `row_zones`
/// are in the order of `ids`; without row zones rows stay where attention has them. Wide zones come
/// first: rows from other nodes are waited for longest.
[[nodiscard]] MicroPack zoned_pack(const SequenceLengths& lengths,
                                   const std::vector<SequenceId>& ids, std::int32_t replicas,
                                   const Zones& zones, const Zones& row_zones = {});

}  // namespace slimpack
