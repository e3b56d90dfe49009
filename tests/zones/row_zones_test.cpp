#include "slimpack/zones/zones.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace slimpack {
namespace {

constexpr LinkMap kTwoEach{.ranks_per_node = 2};

SequenceLengths tokens(const std::vector<std::int64_t>& counts) {
  return {counts.begin(), counts.end()};
}

double fullest(const SequenceLengths& lengths, const Zones& zones, std::int32_t ranks) {
  std::vector<double> rows(static_cast<std::size_t>(ranks));
  for (std::size_t s = 0; s < zones.size(); ++s)
    for (double& of_rank : of_zone(rows, zones[s]))
      of_rank += static_cast<double>(lengths[s].count()) / zones[s].size;
  return std::ranges::max(rows);
}

TEST(RowZones, MovesTheShortestThatEvensTheRows) {
  // Rank 0 has 30 of 40 rows. The sequence of 10 goes to rank 1; 20 on each are even.
  EXPECT_EQ(row_zones(tokens({20, 10, 10}), {{0, 1}, {0, 1}, {1, 1}}, kTwoEach, 2),
            (Zones{{0, 1}, {1, 1}, {1, 1}}));
  // One sequence alone is too much for a rank: both ranks of the node hold it. Then rank 1 has 19
  // of 34 rows, and they share the other one, too.
  EXPECT_EQ(row_zones(tokens({30, 4}), {{0, 1}, {1, 1}}, kTwoEach, 2), (Zones{{0, 2}, {0, 2}}));
  // Nothing to do.
  EXPECT_EQ(row_zones(tokens({10, 10}), {{0, 1}, {1, 1}}, kTwoEach, 2), (Zones{{0, 1}, {1, 1}}));
}

RC_GTEST_PROP(RowZones, NeverFillARankFurther, ()) {
  const LinkMap links{.ranks_per_node = *rc::gen::inRange(1, 4)};
  const std::int32_t ranks = links.ranks_per_node * *rc::gen::inRange(1, 4);
  SequenceLengths lengths;
  Zones zones;
  for (int s = *rc::gen::inRange(1, 12); s > 0; --s) {
    lengths.emplace_back(*rc::gen::inRange<std::int64_t>(1, 100));
    const std::int32_t first = *rc::gen::inRange(0, ranks);
    zones.push_back({first, *rc::gen::inRange(1, ranks - first + 1)});
  }
  const Zones rows = row_zones(lengths, zones, links, ranks);
  for (const Zone& zone : rows) RC_ASSERT(zone.first >= 0 && zone.size >= 1 && zone.end() <= ranks);
  RC_ASSERT(fullest(lengths, rows, ranks) <= fullest(lengths, zones, ranks) + 1e-9);
}

}  // namespace
}  // namespace slimpack
