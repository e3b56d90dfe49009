#include "slimpack/baselines/sharing_rounds.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

SharingRound side_by_side(SharingRound groups) {
  std::int32_t first = 0;
  for (SharingGroup& group : groups) {
    SLIMPACK_CHECK(first % group.count == 0);
    group.first = first;
    first += group.count;
  }
  return groups;
}

void widen_narrowest(SharingRound& groups, std::int32_t free, std::int32_t largest) {
  for (;;) {
    SharingGroup& narrowest = *std::ranges::min_element(groups, {}, &SharingGroup::count);
    if (free < narrowest.count || 2 * narrowest.count > largest) return;
    free -= narrowest.count;
    narrowest.count *= 2;
  }
}

}  // namespace slimpack
