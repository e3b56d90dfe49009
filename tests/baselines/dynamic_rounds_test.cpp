#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "slimpack/baselines/sharing_rounds.h"
#include "tests/baselines/cases.h"

namespace slimpack {
namespace {

using testing::ids;
using testing::job_of;
using testing::made_by;
using testing::members;
using testing::tokens;
using Packs = std::vector<std::vector<int>>;

TEST(DynamicRounds, MayGiveAShortSequenceMoreReplicasThanItNeeds) {
  // Megatron's own test: 2,048 tokens would be alone with 4,096 on a replica, but the longest needs
  // both replicas: 6,144² / 2 of work, to which a second group has no replicas left. So the short
  // one joins: 3,072 + 1,024 tokens a replica.
  const ContextSharing sharing{Tokens(4096), 2};
  EXPECT_EQ(dynamic_rounds(tokens({6144, 2048}), sharing, 2),
            (std::vector<SharingRound>{SharingRound{{0, 2, ids({0, 1})}}}));
}

TEST(DynamicRounds, WidensASequenceWhereItWouldTakeLongerThanTheLongest) {
  // Share 10, 4 replicas. 12 tokens need two replicas: work 144 / 2 = 72. 9 alone would be 81, on
  // two replicas 40.5: a group of two. 8 on one of the groups: two of 8 / 2 = 4 tokens more than
  // fit in 2 · 10 − 12 = 8: yes, but 72 + 32 is above 72, and in the second 40.5 + 32 is, too, by
  // less: 72.5.
  const ContextSharing sharing{Tokens(10), 4};
  EXPECT_EQ(dynamic_rounds(tokens({8, 12, 9}), sharing, 4),
            (std::vector<SharingRound>{SharingRound{{0, 2, ids({1})}, {2, 2, ids({2, 0})}}}));
}

TEST(DynamicRounds, DoublesTheFirstOfTheNarrowestGroupsUntilNoReplicaIsFree) {
  // Share 10, 8 replicas. 40: 4 replicas, work 400. 10 and 10: alone, work 100 each. The first of
  // them grows to 2, then the other one.
  const ContextSharing sharing{Tokens(10), 8};
  EXPECT_EQ(dynamic_rounds(tokens({40, 10, 10}), sharing, 8),
            (std::vector<SharingRound>{
                SharingRound{{0, 4, ids({0})}, {4, 2, ids({1})}, {6, 2, ids({2})}}}));
}

// Megatron's own next_hdp_group_packing_aware (dev, August 2026) made the same groups of these
// 400 lengths. The checksum covers the width and the sequences of every group, in order.
TEST(DynamicRounds, AreThoseOfMegatron) {
  SequenceLengths lengths;
  for (std::int64_t i = 0; i < 400; ++i)
    lengths.emplace_back((64 + (i * i * 7919 + 104729 * i) % 4099) * (i % 37 == 0 ? 13 : 1));
  struct Case {
    std::int32_t replicas;
    std::int64_t share;
    std::int32_t least;
    std::size_t rounds;
    std::int64_t checksum;
  };
  for (const Case& each : {Case{8, 8192, 1, 17, 235299336}, Case{16, 8192, 1, 9, 281492563},
                           Case{32, 4096, 1, 9, 663182757}, Case{16, 8192, 4, 9, 289934650},
                           Case{4, 65536, 1, 5, 823730800}}) {
    const auto rounds =
        dynamic_rounds(lengths, {Tokens(each.share), each.replicas, each.least}, each.replicas);
    EXPECT_EQ(rounds.size(), each.rounds);
    std::int64_t checksum = 0;
    for (std::size_t r = 0; r < rounds.size(); ++r)
      for (std::size_t g = 0; g < rounds[r].size(); ++g)
        for (const SequenceId id : rounds[r][g].sequences) {
          const auto place = static_cast<std::int64_t>((r + 1) * (g + 1) * (id.index() + 1));
          checksum = (checksum * 1'000'003 + place + rounds[r][g].count) % 1'000'000'007;
        }
    EXPECT_EQ(checksum, each.checksum) << each.replicas << " replicas of " << each.share;
  }
}

RC_GTEST_PROP(DynamicRounds, HoldEverySequenceOnceInGroupsWithRoomForIt, ()) {
  const auto lengths = tokens(
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 161)));
  const auto replicas = *rc::gen::inRange<std::int32_t>(1, 20);
  const auto largest =
      static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(replicas)));
  const ContextSharing sharing{Tokens((160 + largest - 1) / largest), largest};
  std::vector<int> seen(lengths.size(), 0);
  for (const SharingRound& round : dynamic_rounds(lengths, sharing, replicas)) {
    std::int32_t next = 0;
    for (const SharingGroup& group : round) {
      RC_ASSERT(group.first == next && group.first % group.count == 0);
      RC_ASSERT(group.count <= largest);
      next += group.count;
      RC_ASSERT(!group.sequences.empty());
      Tokens held;
      for (const SequenceId id : group.sequences) {
        ++seen[id.index()];
        held += lengths[id.index()];
      }
      RC_ASSERT(held <= sharing.per_replica * group.count);
    }
    RC_ASSERT(next <= replicas);
    // No replica is idle where their number is a power of two.
    if (replicas == largest) RC_ASSERT(next == replicas);
  }
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST(DynamicCpBaseline, MakesOneMicroBatchOfEveryRound) {
  // Context 32,768 on 4 replicas: a share is 8,192 tokens, and the longest needs all. 16,384 needs
  // two replicas, 8,192 and 4,096 are alone; 100 joins the lightest of equal groups.
  const SequenceLengths lengths = tokens({32768, 16384, 8192, 4096, 100});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made = made_by("dynamic-cp", job_of(layout, 4, Tokens(32768)), lengths, cost);
  EXPECT_TRUE(made.columns.empty());  // no replica is ever idle
  const auto& replicas = made.plan.replicas;
  EXPECT_EQ(members(replicas[0].packs.forward), (Packs{{0}, {1}}));
  EXPECT_EQ(replicas[1], replicas[0]);
  EXPECT_EQ(members(replicas[2].packs.forward), (Packs{{0}, {2}}));
  EXPECT_EQ(members(replicas[3].packs.forward), (Packs{{0}, {3, 4}}));
}

TEST(DynamicCpBaseline, LeavesReplicasIdleWhereGroupsDoNotDivideThem) {
  const SequenceLengths lengths = tokens({16384, 16384});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  // Three replicas share by two, so the third never has work.
  const BaselinePlan made = made_by("dynamic-cp", job_of(layout, 3, Tokens(16384)), lengths, cost);
  EXPECT_EQ(made.columns, (std::vector<std::vector<std::int32_t>>{{0, 1}, {0, 1}, {}}));
}

}  // namespace
}  // namespace slimpack
