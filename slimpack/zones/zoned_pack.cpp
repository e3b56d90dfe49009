#include "slimpack/zones/zoned_pack.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace slimpack {

MicroPack zoned_pack(const SequenceLengths& lengths, const std::vector<SequenceId>& ids,
                     std::int32_t replicas, const Zones& zones, const Zones& row_zones) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return std::pair(-zones[i].size, zones[i].first); });
  MicroPack pack{{}, replicas};
  for (const std::size_t i : order) {
    pack.slices.push_back({ids[i], Tokens(0), lengths[ids[i].index()]});
    pack.zones.push_back(zones[i]);
    if (!row_zones.empty()) pack.row_zones.push_back(row_zones[i]);
  }
  return pack;
}

}  // namespace slimpack
