#include "slimpack/zones/search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace slimpack {
namespace {

constexpr LinkMap kLinks{.ranks_per_node = 2,
                         .nics_per_node = 1,
                         .node_latency = 50,
                         .node_per_byte = 0.1,
                         .nic_latency = 500,
                         .nic_per_byte = 1};

LayerPasses layer() {
  LayerPasses passes;
  passes.forward.cost = {.per_pack = 100, .per_slice = 20, .per_token = 3, .per_pair = 0.01};
  passes.forward.attention_per_token = 0.5;
  passes.forward.ring_bytes = 4;
  passes.forward.remap_bytes = 8;
  passes.backward = passes.forward;
  passes.backward.cost.per_pair = 0.025;
  passes.backward.ring_bytes = 8;
  return passes;
}

SequenceLengths tokens(const std::vector<int>& counts) {
  SequenceLengths lengths;
  for (const int count : counts) lengths.emplace_back(count);
  return lengths;
}

TEST(BestZones, StayInNodesWhereMessagesBetweenThemCostMore) {
  // 2,000 tokens have two million pairs, 20 µs forward: 5 µs in each round of a node's ring, whose
  // messages take 50 + 400 ns. Over both nodes a round of both sequences has 2.5 µs of pairs and
  // messages of 4.5 µs. On one rank each, half of the ranks would be idle.
  const Zones expected{{0, 2}, {2, 2}};
  EXPECT_EQ(best_zones(tokens({2'000, 2'000}), {4, kLinks, Tokens(4'000)}, layer(), {}), expected);
}

RC_GTEST_PROP(BestZones, AreNoWorseThanZeppelinsOrRings, ()) {
  const SequenceLengths lengths =
      tokens(*rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 3'000))));
  const ZoneProblem problem{8, kLinks, total_tokens(lengths)};
  const auto time = [&](const Zones& zones) {
    return passes_time(lengths, zones, problem, layer(), {});
  };
  const double best = time(best_zones(lengths, problem, layer(), {}));
  const ZoneCrossovers crossovers = zone_crossovers(kLinks, layer().forward, true);
  RC_ASSERT(best <= time(zeppelin_zones(lengths, problem, crossovers)));
  for (const std::int32_t size : {1, 2, 4, 8})
    RC_ASSERT(best <= time(ring_zones(lengths, problem, size).value()));
}

}  // namespace
}  // namespace slimpack
