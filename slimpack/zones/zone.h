// Zones of a batch, and which links they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace slimpack
