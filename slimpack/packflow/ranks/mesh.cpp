#include "slimpack/packflow/ranks/mesh.h"

#include <cmath>

#include "slimpack/cost/in_flight.h"
#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

std::vector<Mesh::Block> Mesh::blocks(std::int32_t members) {
  const std::int32_t count =
      members <= kDirectMembers ? 1 : static_cast<std::int32_t>(std::floor(std::sqrt(members)));
  std::vector<Block> blocks;
  for (std::int32_t b = 0; b < count; ++b) {
    const Shard part(members, count, b);
    blocks.push_back({static_cast<std::int32_t>(part.begin), static_cast<std::int32_t>(part.end)});
  }
  return blocks;
}

Mesh::Mesh(std::int32_t members, std::int32_t index) {
  const std::vector<Block> all = blocks(members);
  // The member of a block that serves the members at this place of other blocks, which may have one
  // member more.
  const auto source = [](const Block& of, std::int32_t place) {
    return of.begin + place % of.size();
  };
  for (const Block& block : all)
    if (block.begin <= index && index < block.end) own = block;
  for (const Block& other : all) {
    if (other == own) continue;
    received.push_back({other, source(other, index - own.begin)});
    for (std::int32_t m = other.begin; m < other.end; ++m)
      if (source(own, m - other.begin) == index) targets.push_back(m);
  }
}

}  // namespace slimpack
