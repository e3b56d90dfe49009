#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <vector>

#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::job_of;
using testing::made_by;
using testing::members;
using testing::tokens;
using Packs = std::vector<std::vector<int>>;

// A pair takes 3.5 ns in each of four layers. Sharing adds 800 ns and 12 ns a token for two
// replicas, 1,200 ns and 18 ns a token for four. So the pairs of L tokens, L²/2 of them, take each
// of two replicas as long as that from L = 17 on, and each of four from L = 32 on.
constexpr std::int64_t kNode = 17, kAcross = 32;

TEST(ZeppelinBaseline, SharesSequencesOnAllRanksOfANodeOrLeavesThemOnOne) {
  // All four replicas are on one node. Sequences of up to 32 tokens go, longest first, to the
  // replica with the least Σ length².
  const BaselinePlan made = made_by("zeppelin", job_of({{0, 4}}, 4, Tokens(32768)),
                                    tokens({20, kAcross + 1, 30, 10}), testing::round_cost());
  for (const ReplicaPlan& replica : made.plan.replicas) {
    ASSERT_EQ(members(replica.packs.forward), (Packs{{1, 2, 0, 3}}));
    EXPECT_EQ(replica.packs.forward[0].replicas, 4);
    EXPECT_EQ(replica.packs.forward[0].zones, (std::vector<Zone>{{0, 4}, {0, 1}, {1, 1}, {2, 1}}));
    EXPECT_EQ(replica.packs.backward, replica.packs.forward);
  }
}

TEST(ZeppelinBaseline, SharesLongSequencesAcrossNodes) {
  Costs cost = testing::round_cost();
  cost.host.ranks_per_node = 2;
  // The first sequence spans both nodes, the second one the first of them. The others go to the
  // second node, which has fewer tokens, and there to the replica with fewer.
  const BaselinePlan made = made_by("zeppelin", job_of({{0, 4}}, 4, Tokens(32768)),
                                    tokens({1000, kNode + 1, 10, 9}), cost);
  EXPECT_EQ(made.plan.replicas[3].packs.forward[0].zones,
            (std::vector<Zone>{{0, 4}, {0, 2}, {2, 1}, {3, 1}}));
}

TEST(ZeppelinBaseline, GroupsAreAsLargeAsTheCostModelKnowsAndTakeMicroBatchesInTurn) {
  // Eight replicas in groups of four. A micro-batch has 4 · 8,192 tokens at most.
  const BaselinePlan made =
      made_by("zeppelin", job_of({{0, 4}}, 8, Tokens(32768)),
              tokens({20000, 10000, 16000, 16000, 30000}), testing::round_cost());
  EXPECT_EQ(members(made.plan.replicas[0].packs.forward), (Packs{{0, 1}, {4}}));
  EXPECT_EQ(members(made.plan.replicas[4].packs.forward), (Packs{{2, 3}}));
  EXPECT_EQ(made.plan.replicas[3], made.plan.replicas[0]);
}

TEST(ZeppelinBaseline, SharesNothingThatARankHoldsWhereNoPairsCount) {
  // Costs of layers that all have a window: no time grows with the square of a sequence's length.
  Costs cost = testing::round_cost();
  cost.host.ranks_per_node = 2;
  cost.kinds[0].forward.per_pair = cost.kinds[0].backward.per_pair = 0;
  const BaselinePlan made =
      made_by("zeppelin", job_of({{0, 4}}, 4, Tokens(32768)), tokens({1000, 900, 800, 700}), cost);
  for (const Zone& zone : made.plan.replicas[0].packs.forward[0].zones) EXPECT_EQ(zone.size, 1);
}

TEST(ZeppelinBaseline, AReplicaAloneHasNoZones) {
  const BaselinePlan made = made_by("zeppelin", job_of({{0, 4}}, 3, Tokens(100)),
                                    tokens({50, 60, 70}), testing::round_cost());
  for (const ReplicaPlan& replica : made.plan.replicas)
    for (const MicroPack& pack : replica.packs.forward) {
      EXPECT_EQ(pack.replicas, 1);
      EXPECT_TRUE(pack.zones.empty());
    }
}

RC_GTEST_PROP(ZeppelinBaseline, MakesCorrectPlansWithZonesOfPowersOfTwo, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 3000))));
  Costs cost = testing::round_cost();
  cost.host.ranks_per_node = *rc::gen::inRange(0, 9);
  const auto replicas = *rc::gen::inRange<std::int32_t>(1, 17);
  const Job job = job_of(testing::one_layer_each(*rc::gen::inRange(1, 5)), replicas, Tokens(3000));
  for (const Tuning& tuning :
       baseline_named("zeppelin").tunings(testing::input_of(job, lengths, cost))) {
    const StepPlan plan = made_by("zeppelin", job, lengths, cost, tuning).plan;
    RC_ASSERT(check_plan(plan) == std::vector<std::string>());
    for (const ReplicaPlan& replica : plan.replicas)
      for (const MicroPack& pack : replica.packs.forward)
        for (const Zone& zone : pack.zones)
          RC_ASSERT(std::has_single_bit(static_cast<unsigned>(zone.size)));
  }
}

}  // namespace
}  // namespace slimpack
