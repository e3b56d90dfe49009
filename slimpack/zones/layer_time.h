// Time of a decoder layer whose sequences lie in zones.
//
// Attention of a zone is a ring: in each of its G rounds a rank runs its queries against the keys
// and values of one member, and passes these on. Sequences of the same zone run in one pass. A rank
// has three queues (Zeppelin, arXiv:2509.21841): what comes from other nodes runs first, then what
// comes from its own, then what is local; while one queue waits for messages, the next one runs.
// Everything else of the layer works on rows alone.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/pack_cost.h"
#include "slimpack/workload/slice.h"
#include "slimpack/zones/partition.h"
#include "slimpack/zones/zone.h"

namespace slimpack {

/// A layer in one pass.
struct ZonedLayer {
  PackCost cost;
  double attention_per_token = 0;  ///< the part of cost.per_token that each round of a ring repeats
  double ring_bytes = 0;           ///< that a round passes on for each token of a member
  double remap_bytes = 0;          ///< for each token that changes its rank, there and back
};

struct ZoneOptions {
  bool route = true;   ///< spreads transfers between nodes over the NICs
  bool remap = true;   ///< balances rows for what works on rows
  bool queues = true;  ///< false: a rank ends each zone before it begins the next one
};

/// Nanoseconds of each part on the rank that takes longest.
struct LayerTime {
  double attention = 0;
  double rows = 0;
  double remap = 0;

  [[nodiscard]] double total() const { return attention + rows + remap; }
};

/// The time until all ranks have done the layer. Without remapping a rank's rows and attention
/// count together: both parts are those of the rank whose sum is largest.
/// Cost: O(zones · ranks · log).
[[nodiscard]] LayerTime layer_time(const SequenceLengths& lengths, const Zones& zones,
                                   const LinkMap& links, std::int32_t ranks,
                                   const ZonedLayer& layer, const ZoneOptions& options);

/// The layer's time where all ranks gather the keys and values of all sequences before attention,
/// over all NICs, as Llama 3's context parallelism does (arXiv:2407.21783). Nothing overlaps with
/// the gathering.
[[nodiscard]] LayerTime gathered_layer_time(const SequenceLengths& lengths, const LinkMap& links,
                                            std::int32_t ranks, const ZonedLayer& layer);

/// The layer's time in one ring of nodes, inside each of which ranks exchange rows for heads and
/// back (DeepSpeed-Ulysses, arXiv:2309.14509): TransformerEngine's "a2a+p2p". All ranks of a node
/// send to the next node at the same time.
[[nodiscard]] LayerTime two_level_layer_time(const SequenceLengths& lengths, const LinkMap& links,
                                             std::int32_t ranks, const ZonedLayer& layer);

/// From how many tokens on a sequence's pairs take longer than the messages of its ring, round by
/// round. Launches do not count: they hide nothing that local attention would not.
[[nodiscard]] ZoneCrossovers zone_crossovers(const LinkMap& links, const ZonedLayer& layer,
                                             bool route);

}  // namespace slimpack
