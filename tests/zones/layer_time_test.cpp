#include "slimpack/zones/layer_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace slimpack {
namespace {

/// Two nodes of two ranks with two NICs each.
constexpr LinkMap kLinks{.ranks_per_node = 2,
                         .nics_per_node = 2,
                         .node_latency = 0,
                         .node_per_byte = 1,
                         .nic_latency = 0,
                         .nic_per_byte = 10};
constexpr ZoneOptions kPlain{.route = false, .remap = false, .queues = false};
constexpr ZoneOptions kQueues{.route = false, .remap = false, .queues = true};

/// A pair takes 1 ns, a round passes 1 byte on for each token; nothing else takes time.
ZonedLayer pairs_alone() {
  ZonedLayer layer;
  layer.cost.per_pair = 1;
  layer.ring_bytes = 1;
  return layer;
}

SequenceLengths tokens(const std::vector<int>& counts) {
  SequenceLengths lengths;
  for (const int count : counts) lengths.emplace_back(count);
  return lengths;
}

TEST(LayerTime, OfOneRankIsThatOfTheCostModel) {
  ZonedLayer layer;
  layer.cost = {.per_pack = 100, .per_slice = 7, .per_token = 5, .per_pair = 2};
  layer.attention_per_token = 1;
  // One call for all sequences of a zone: 7 + (10 + 4) · 1 + (55 + 10) · 2. Rows: 100 + 14 · 4.
  const LayerTime time = layer_time(tokens({10, 4}), {{0, 1}, {0, 1}}, kLinks, 1, layer, kPlain);
  EXPECT_EQ(time.attention, 7 + 14 + 130);
  EXPECT_EQ(time.rows, 100 + 56);
  EXPECT_EQ(time.total(), 151 + 156);
}

TEST(LayerTime, OfARingIsThatOfItsRounds) {
  // 4 tokens have 10 pairs: 5 for each of two ranks, 2.5 in each round. A message has 2 bytes and
  // takes 2 ns inside the node, which the round hides; 20 ns between nodes.
  const SequenceLengths four = tokens({4});
  EXPECT_EQ(layer_time(four, {{0, 2}}, kLinks, 4, pairs_alone(), kPlain).attention, 5);
  EXPECT_EQ(layer_time(four, {{1, 2}}, kLinks, 4, pairs_alone(), kPlain).attention, 2.5 + 20);
  EXPECT_EQ(layer_time(four, {{1, 2}}, kLinks, 4, pairs_alone(), kQueues).attention, 20 + 2.5);
}

TEST(LayerTime, QueuesFillTheWaitForMessages) {
  // Rank 1 has a ring between nodes, as above: rounds at 0 and at 20 ns. Between them it runs its
  // local sequence of 5 tokens, 15 pairs.
  const SequenceLengths lengths = tokens({4, 5});
  const Zones zones{{1, 2}, {1, 1}};
  EXPECT_EQ(layer_time(lengths, zones, kLinks, 4, pairs_alone(), kQueues).attention, 20 + 2.5);
  EXPECT_EQ(layer_time(lengths, zones, kLinks, 4, pairs_alone(), kPlain).attention, 22.5 + 15);
}

TEST(LayerTime, RoutingDividesWhatCrossesNodes) {
  // Messages of 200 bytes: 2,000 ns over one NIC, 2 · 100 + 1,000 ns over two.
  const SequenceLengths lengths = tokens({400});
  const double pairs = 400 * 401 / 2;
  ZonedLayer layer = pairs_alone();
  layer.cost.per_pair = 1e-3;
  EXPECT_DOUBLE_EQ(layer_time(lengths, {{1, 2}}, kLinks, 4, layer, kPlain).attention,
                   pairs / 4 * 1e-3 + 200 * 10);
  EXPECT_DOUBLE_EQ(layer_time(lengths, {{1, 2}}, kLinks, 4, layer,
                              {.route = true, .remap = false, .queues = false})
                       .attention,
                   pairs / 4 * 1e-3 + 2 * 100 + 100 * 10);
}

TEST(LayerTime, RemappingBalancesRowsWhereItPays) {
  ZonedLayer layer = pairs_alone();
  layer.cost.per_token = 50;
  layer.remap_bytes = 1;
  // Ranks 0 and 1 hold 10 and 4 tokens. Balanced, both hold 7: three rows move.
  const SequenceLengths lengths = tokens({10, 4});
  const LayerTime time = layer_time(lengths, {{0, 1}, {1, 1}}, kLinks, 2, layer, {});
  EXPECT_EQ(time.attention, 55);
  EXPECT_EQ(time.rows, 7 * 50);
  EXPECT_EQ(time.remap, 3);
  EXPECT_EQ(layer_time(lengths, {{0, 1}, {1, 1}}, kLinks, 2, layer, kPlain).total(), 55 + 10 * 50);
  layer.remap_bytes = 1'000;
  EXPECT_EQ(layer_time(lengths, {{0, 1}, {1, 1}}, kLinks, 2, layer, {}).total(), 55 + 10 * 50);
}

TEST(LayerTime, GatheringWaitsForAllKeysAndValues) {
  // 8 tokens have 36 pairs, 9 for each rank. A node gets the 4 bytes of the other one over two
  // NICs: 20 ns. Inside a node all 8 bytes travel, 8 ns.
  const LayerTime time = gathered_layer_time(tokens({8}), kLinks, 4, pairs_alone());
  EXPECT_EQ(time.attention, 9 + 20);
}

TEST(LayerTime, OfTwoLevelsHasARingOfNodes) {
  // 40 tokens have 820 pairs, 205 for each rank in two rounds. Its 10 rows have 10 bytes for the
  // next node, and two ranks share two NICs: 100 ns. Inside the node half of the rows leave each
  // rank, with 1 byte of keys and values and 3 of queries and outputs: 20 ns.
  ZonedLayer layer = pairs_alone();
  layer.remap_bytes = 3;
  const LayerTime time = two_level_layer_time(tokens({40}), kLinks, 4, layer);
  EXPECT_EQ(time.attention, 20 + 205);
  layer.cost.per_pair = 0.1;
  EXPECT_EQ(two_level_layer_time(tokens({40}), kLinks, 4, layer).attention, 20 + 10.25 + 100);
}

TEST(ZoneCrossovers, AreWhereWorkHidesMessages) {
  // Between two ranks a round has (n² + n)/8 pairs and passes n/2 bytes on: n ≥ 3. Between four
  // ranks in two nodes (n² + n)/32 pairs stand against n/4 bytes of 10 ns: n ≥ 79.
  const ZoneCrossovers crossovers = zone_crossovers(kLinks, pairs_alone(), false);
  EXPECT_EQ(crossovers.node, Tokens(3));
  EXPECT_EQ(crossovers.across, Tokens(79));
}

// Whatever the zones, no rank ends before its own work, and queues never take longer than that and
// all messages of its rings one after another.
RC_GTEST_PROP(LayerTime, LiesBetweenItsBounds, ()) {
  const SequenceLengths lengths =
      tokens(*rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 200))));
  const ZoneProblem problem{4, kLinks, total_tokens(lengths)};
  const ZoneCrossovers crossovers{Tokens(*rc::gen::inRange(1, 200)),
                                  Tokens(*rc::gen::inRange(1, 200))};
  const Zones zones = zeppelin_zones(lengths, problem, crossovers);
  std::vector<double> pairs(4);
  double messages = 0;
  for (std::size_t s = 0; s < zones.size(); ++s) {
    const double members = zones[s].size;
    for (double& of_rank : of_zone(pairs, zones[s]))
      of_rank += Slice{SequenceId(s), Tokens(0), lengths[s]}.causal_pairs() / members;
    if (members > 1)
      messages +=
          (members - 1) * static_cast<double>(lengths[s].count()) / members * kLinks.nic_per_byte;
  }
  const double time = layer_time(lengths, zones, kLinks, 4, pairs_alone(), kQueues).attention;
  RC_ASSERT(time >= std::ranges::max(pairs) - 1e-6);
  RC_ASSERT(time <= std::ranges::max(pairs) + messages + 1e-6);
}

}  // namespace
}  // namespace slimpack
