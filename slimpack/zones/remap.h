// Remapping: rows move from attention's layout to one with as many on every rank, and back.
//
// Products and norms work on rows alone, so tokens balance them. Pairs balance attention. Zeppelin
// (arXiv:2509.21841) moves rows between the two layouts.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/spec/link_map.h"

namespace slimpack {

struct RowTransfer {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double rows = 0;

  bool operator==(const RowTransfer&) const = default;
};

/// Transfers after which every rank has the mean of `rows` (by rank). As many rows as possible stay
/// in their node, and none moves twice. So their cost is least under every link map whose links
/// inside nodes are cheaper than those between them. Cost: O(ranks).
[[nodiscard]] std::vector<RowTransfer> remapping(const LinkMap& links,
                                                 const std::vector<double>& rows);

/// Nanoseconds until all transfers are done, `bytes` for each row in both directions together. Rows
/// between nodes leave and arrive over all NICs of a node, those inside at the same time.
[[nodiscard]] double remap_time(const LinkMap& links, const std::vector<RowTransfer>& transfers,
                                double bytes);

}  // namespace slimpack
