#include "slimpack/packflow/ranks/mesh.h"

namespace slimpack {

Mesh::Mesh(std::int32_t members, std::int32_t index) {
  const std::vector<Block> all = blocks(members);
  // The member of a block that serves the members at this place of other blocks, which may have
  // more members.
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
