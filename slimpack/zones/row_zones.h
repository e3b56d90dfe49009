// Row zones: which ranks hold a sequence's rows outside of attention, so that products and norms
// are balanced by tokens (remapping, Zeppelin, arXiv:2509.21841).
#pragma once

#include "slimpack/plan/slice.h"
#include "slimpack/zones/zone.h"

namespace slimpack {

/// Begins with the zones of attention. Then, as long as the rank with most rows has more than its
/// share, one of its sequences goes to the rank with the fewest rows, of its node or of all, or to
/// all ranks of its node: the one that leaves the fewest rows on the fullest of these, and of equal
/// ones the shortest. So most rows stay where they are, and others mostly in their node.
/// Cost: O(sequences) for each sequence that moves.
[[nodiscard]] Zones row_zones(const SequenceLengths& lengths, const Zones& zones,
                              const LinkMap& links, std::int32_t ranks);

}  // namespace slimpack
