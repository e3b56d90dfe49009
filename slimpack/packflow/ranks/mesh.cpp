#include "slimpack/packflow/ranks/mesh.h"

#include <cmath>

#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

Mesh::Mesh(std::int32_t members, std::int32_t index) {
  const auto blocks = static_cast<std::int32_t>(std::floor(std::sqrt(members)));
  const auto block = [&](std::int32_t number) {
    const Shard part(members, blocks, number);
    return Block{static_cast<std::int32_t>(part.begin), static_cast<std::int32_t>(part.end)};
  };
  // The member of a block that serves the members at this place of other blocks, which may have one
  // member more.
  const auto source = [](const Block& of, std::int32_t place) {
    return of.begin + place % (of.end - of.begin);
  };
  for (std::int32_t number = 0; own.end <= index; ++number) own = block(number);
  const std::int32_t place = index - own.begin;
  for (std::int32_t number = 0; number < blocks; ++number) {
    const Block other = block(number);
    if (other == own) continue;
    received.push_back({other, source(other, place)});
    for (std::int32_t m = other.begin; m < other.end; ++m)
      if (source(own, m - other.begin) == index) targets.push_back(m);
  }
}

}  // namespace slimpack
