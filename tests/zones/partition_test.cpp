#include "slimpack/zones/zones.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr ZoneCrossovers kNever{Tokens(1 << 30), Tokens(1 << 30)};

ZoneProblem problem(std::int32_t ranks, std::int32_t per_node, std::int64_t rank_tokens) {
  return {ranks, LinkMap{.ranks_per_node = per_node}, Tokens(rank_tokens)};
}

SequenceLengths tokens(const std::vector<int>& counts) {
  SequenceLengths lengths;
  for (const int count : counts) lengths.emplace_back(count);
  return lengths;
}

TEST(ZeppelinZones, SpanNodesWhereOneIsTooSmall) {
  // A node holds 20, so 24 spans both, 12 on each, 6 on each rank. The others go to the node with
  // the fewest tokens: 6 to node 0 (18), 5 to node 1 (17), 3 to node 1 (20). A rank has room for 4:
  // 6 and 5 are rings of their nodes, and then 3 is one too, for both ranks have 9 of 10.
  const Zones expected{{0, 4}, {0, 2}, {2, 2}, {2, 2}};
  EXPECT_EQ(zeppelin_zones(tokens({24, 6, 5, 3}), problem(4, 2, 10), kNever), expected);
}

TEST(ZeppelinZones, ShareWhatIsLongerThanTheCrossovers) {
  // On a node of two ranks a sequence of 8 is a ring from 5 tokens on; the rest stays whole,
  // balanced by squares.
  const Zones inside{{0, 2}, {0, 1}, {1, 1}};
  EXPECT_EQ(zeppelin_zones(tokens({8, 3, 2}), problem(2, 2, 20), {Tokens(4), Tokens(100)}), inside);
  // Between nodes the same holds.
  const Zones across{{0, 4}, {0, 1}, {2, 1}};
  EXPECT_EQ(zeppelin_zones(tokens({16, 3, 2}), problem(4, 2, 20), {Tokens(9), Tokens(9)}), across);
}

TEST(ZeppelinZones, BalanceSquaresOnTheRanksOfANode) {
  // Longest first to the least Σ length²: 5 | 4, 3 (25 against 16 + 9), then 2 to either.
  const Zones expected{{0, 1}, {1, 1}, {1, 1}, {0, 1}};
  EXPECT_EQ(zeppelin_zones(tokens({5, 4, 3, 2}), problem(2, 2, 10), kNever), expected);
}

TEST(ZeppelinZones, OfOneNodeShareWhatARankCannotHold) {
  EXPECT_EQ(zeppelin_zones(tokens({18, 5, 4}), problem(4, 4, 10), kNever),
            (Zones{{0, 4}, {0, 1}, {1, 1}}));
}

TEST(Crossover, IsWherePairsTakeAsLongAsWhatSharingAdds) {
  PackCost alone, shared;
  alone.per_token = 8;
  shared.per_pack = 100;
  shared.per_token = 7;
  shared.per_pair = 2;
  shared.travel = {.per_query = 5, .per_key = 3};
  // L² = 100 + (7 + 3 − 8 ÷ 4) · L: L = 4 + √116 = 14.8.
  EXPECT_EQ(crossover(alone, shared, 4), Tokens(15));
  EXPECT_EQ(crossover(alone, alone, 4), kNeverShared);  // no pairs
  shared = {.per_pair = 2};
  EXPECT_EQ(crossover(alone, shared, 4), Tokens(1));  // sharing adds nothing, saves 2 ns a token
}

TEST(Zones, NeedRoomForTheTokens) {
  try {
    (void)zeppelin_zones(tokens({30, 11}), problem(4, 2, 10), kNever);
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(
        error.what(),
        "41 tokens are more than 4 ranks of 10 tokens hold; train with fewer tokens a step "
        "or on more ranks");
  }
}

RC_GTEST_PROP(Zones, HoldTheirRules, ()) {
  const int per_node = *rc::gen::inRange(1, 5), nodes = *rc::gen::inRange(1, 5);
  const SequenceLengths lengths =
      tokens(*rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 500))));
  const std::int32_t ranks = per_node * nodes;
  const std::int64_t share = total_tokens(lengths).count() / ranks + 1;
  const ZoneProblem given = problem(ranks, per_node, share * *rc::gen::inRange(1, 4));
  const ZoneCrossovers crossovers{Tokens(*rc::gen::inRange(1, 600)),
                                  Tokens(*rc::gen::inRange(1, 600))};
  const Zones zeppelin = zeppelin_zones(lengths, given, crossovers);
  RC_ASSERT(zeppelin.size() == lengths.size());
  for (const Zone& zone : zeppelin)
    RC_ASSERT(zone.first >= 0 && zone.size >= 1 && zone.end() <= ranks);
  // Zeppelin's rings are those of whole nodes. A rank that has a sequence of its own holds no more
  // than it may, but for the rounding of shares.
  std::vector<double> held(static_cast<std::size_t>(ranks));
  std::vector<bool> has_own(static_cast<std::size_t>(ranks));
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const Zone& zone = zeppelin[s];
    RC_ASSERT(zone.size == 1 || (zone.first % per_node == 0 && zone.size % per_node == 0));
    if (zone_kind(given.links, zone) == ZoneKind::kNode) RC_ASSERT(zone.size == per_node);
    if (zone_kind(given.links, zone) == ZoneKind::kLocal)
      has_own[static_cast<std::size_t>(zone.first)] = true;
    for (double& of_rank : of_zone(held, zone))
      of_rank += static_cast<double>(lengths[s].count()) / zone.size;
  }
  for (std::size_t r = 0; r < held.size(); ++r)
    RC_ASSERT(!has_own[r] || held[r] <= static_cast<double>(given.rank_tokens.count()) + 1e-6);
}

}  // namespace
}  // namespace slimpack
