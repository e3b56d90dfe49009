// Zone: the ranks that share the attention of a sequence (Zeppelin, arXiv:2509.21841).
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/zones/link_map.h"

namespace slimpack {

/// Ascending ranks. Several pass keys and values around in a ring; each has an equal share of the
/// sequence's rows, and of its causal pairs.
using Zone = std::vector<std::int32_t>;

/// The zones of a batch, by SequenceId.
using Zones = std::vector<Zone>;

enum class ZoneKind : std::uint8_t {
  kLocal,   ///< one rank
  kNode,    ///< a ring inside a node
  kAcross,  ///< a ring over nodes
};

[[nodiscard]] inline ZoneKind zone_kind(const LinkMap& links, const Zone& zone) {
  if (zone.size() == 1) return ZoneKind::kLocal;
  return links.node(zone.front()) == links.node(zone.back()) ? ZoneKind::kNode : ZoneKind::kAcross;
}

}  // namespace slimpack
