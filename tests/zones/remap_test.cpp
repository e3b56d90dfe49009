#include "slimpack/zones/remap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace slimpack {
namespace {

constexpr LinkMap kLinks{.ranks_per_node = 2,
                         .nics_per_node = 2,
                         .node_latency = 10,
                         .node_per_byte = 1,
                         .nic_latency = 100,
                         .nic_per_byte = 20};

TEST(Remapping, KeepsRowsInTheirNode) {
  // The mean is 6. Node 0 has 9 + 5: one row too many for rank 1, two more leave the node.
  const std::vector<RowTransfer> expected{{0, 1, 1}, {0, 2, 1}, {0, 3, 1}};
  EXPECT_EQ(remapping(kLinks, {9, 5, 5, 5}), expected);
  EXPECT_TRUE(remapping(kLinks, {4, 4, 4, 4}).empty());
}

TEST(Remapping, TakesAsLongAsItsBusiestLink) {
  EXPECT_EQ(remap_time(kLinks, {}, 8), 0);
  // Inside: one row of 8 bytes, 8 ns. Across: two rows over two NICs, 8 bytes each, 160 ns.
  EXPECT_EQ(remap_time(kLinks, {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}}, 8), 2 * 100 + 160);
  EXPECT_EQ(remap_time(kLinks, {{0, 1, 3}, {2, 3, 4}}, 8), 2 * 10 + 32);
}

// No remapping moves fewer rows than the surplus of ranks, or fewer between nodes than the surplus
// of nodes. One that attains both is the cheapest wherever links inside nodes cost less.
RC_GTEST_PROP(Remapping, MovesAsLittleAsPossible, ()) {
  LinkMap links = kLinks;
  links.ranks_per_node = *rc::gen::inRange(1, 5);
  const int nodes = *rc::gen::inRange(1, 5);
  const auto counts = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(nodes * links.ranks_per_node), rc::gen::inRange(0, 1'000));
  std::vector<double> rows(counts.begin(), counts.end());
  const double mean =
      std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
  double surplus = 0;
  std::map<std::int32_t, double> of_node;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    surplus += std::max(0.0, rows[r] - mean);
    of_node[links.node(static_cast<std::int32_t>(r))] += rows[r] - mean;
  }
  double node_surplus = 0;
  for (const auto& [node, over] : of_node) node_surplus += std::max(0.0, over);

  double moved = 0, across = 0;
  for (const RowTransfer& transfer : remapping(links, rows)) {
    RC_ASSERT(transfer.rows > 0);
    rows[static_cast<std::size_t>(transfer.from)] -= transfer.rows;
    rows[static_cast<std::size_t>(transfer.to)] += transfer.rows;
    moved += transfer.rows;
    if (links.node(transfer.from) != links.node(transfer.to)) across += transfer.rows;
  }
  for (const double balanced : rows) RC_ASSERT(std::abs(balanced - mean) < 1e-6);
  RC_ASSERT(std::abs(moved - surplus) < 1e-6);
  RC_ASSERT(std::abs(across - node_surplus) < 1e-6);
}

}  // namespace
}  // namespace slimpack
