#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/sharing_rounds.h"
#include "slimpack/schedule/schedule.h"
#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::ids;
using testing::job_of;
using testing::made_by;
using testing::members;
using testing::tokens;
using Packs = std::vector<std::vector<int>>;

TEST(ContextSharing, TakesTheNextPowerOfTwoOfLengthOverShare) {
  // Megatron: max(1, 2 ** ceil(log2(length / max_seqlen_per_rank))).
  const ContextSharing sharing{Tokens(8192), 8};
  EXPECT_EQ(sharing.replicas_for(Tokens(1)), 1);
  EXPECT_EQ(sharing.replicas_for(Tokens(8192)), 1);
  EXPECT_EQ(sharing.replicas_for(Tokens(8193)), 2);
  EXPECT_EQ(sharing.replicas_for(Tokens(16384)), 2);
  EXPECT_EQ(sharing.replicas_for(Tokens(16385)), 4);
  EXPECT_EQ(sharing.replicas_for(Tokens(65536)), 8);
}

TEST(ContextSharing, TakesNoLargerGroupsThanReplicasAndCostModelAllow) {
  const SequenceLengths none;
  Costs cost = testing::round_cost();  // groups of up to 4
  const StageLayout layout = testing::one_layer_each(2);
  const auto sharing = [&](std::int32_t replicas) {
    return context_sharing(testing::input_of(job_of(layout, replicas, Tokens(65536)), none, cost));
  };
  // 65,536 tokens over the largest group: 4, of 3 replicas 2.
  EXPECT_EQ(sharing(8).largest, 4);
  EXPECT_EQ(sharing(8).per_replica, Tokens(16384));
  EXPECT_EQ(sharing(3).largest, 2);
  EXPECT_EQ(sharing(3).per_replica, Tokens(32768));
  cost.kinds.front().merge.clear();
  EXPECT_EQ(sharing(8).largest, 1);
  EXPECT_EQ(sharing(8).per_replica, Tokens(65536));
}

TEST(HybridRounds, GivesALongSequenceAGroupAndTheRestTheirOwnReplicas) {
  // Share 10, 4 replicas. 20 tokens: 2 replicas, work 400 / 2 = 200. 10 and 10: work 100 each on a
  // replica of its own; slack 100 of 200 is above 5%, so further ones of 10 go to the lightest:
  // 200 200 200, balanced.
  const ContextSharing sharing{Tokens(10), 4};
  const auto rounds = hybrid_rounds(tokens({10, 20, 10, 10, 10}), sharing, 4);
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_EQ(rounds[0], (SharingRound{{0, 2, ids({1})}, {2, 1, ids({0, 3})}, {3, 1, ids({2, 4})}}));
}

TEST(HybridRounds, PutsTheLastSequenceOffWhereItMakesTheBalanceWorse) {
  // One width, two replicas: 10 | 9, then 8 to the 9: work 100 | 145, slack 45 above 19 before, and
  // above 5%, so the 8 waits for the next round and runs on both replicas there.
  const ContextSharing sharing{Tokens(10), 2};
  const auto rounds = hybrid_rounds(tokens({10, 9, 8}), sharing, 2);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0], (SharingRound{{0, 1, ids({0})}, {1, 1, ids({1})}}));
  EXPECT_EQ(rounds[1], (SharingRound{{0, 2, ids({2})}}));
}

TEST(HybridRounds, WidensGroupsUntilNoReplicaIsFree) {
  const ContextSharing sharing{Tokens(10), 4};
  EXPECT_EQ(hybrid_rounds(tokens({5}), sharing, 4),
            (std::vector<SharingRound>{SharingRound{{0, 4, ids({0})}}}));
  // 20 and 5 on four replicas: 2 + 1, the narrowest grows to 2.
  EXPECT_EQ(hybrid_rounds(tokens({20, 5}), sharing, 4),
            (std::vector<SharingRound>{SharingRound{{0, 2, ids({0})}, {2, 2, ids({1})}}}));
  // A group of four leaves two of six replicas free, too few for eight.
  EXPECT_EQ(hybrid_rounds(tokens({40}), sharing, 6),
            (std::vector<SharingRound>{SharingRound{{0, 4, ids({0})}}}));
}

RC_GTEST_PROP(HybridRounds, HoldEverySequenceOnceOnAlignedGroupsThatAreWideEnough, ()) {
  const auto lengths = tokens(
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 161)));
  const auto replicas = *rc::gen::inRange<std::int32_t>(1, 20);
  const auto largest =
      static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(replicas)));
  const ContextSharing sharing{Tokens((160 + largest - 1) / largest), largest};
  std::vector<int> seen(lengths.size(), 0);
  for (const SharingRound& round : hybrid_rounds(lengths, sharing, replicas)) {
    std::int32_t next = 0;
    for (const SharingGroup& group : round) {
      RC_ASSERT(group.first == next && group.first % group.count == 0);
      RC_ASSERT(group.count <= largest);
      next += group.count;
      RC_ASSERT(!group.sequences.empty());
      for (const SequenceId id : group.sequences) {
        ++seen[id.index()];
        RC_ASSERT(group.count >= sharing.replicas_for(lengths[id.index()]));
      }
    }
    RC_ASSERT(next <= replicas);
  }
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST(ContextParallelBaseline, RunsSharedPacksInTheSameColumnOnAllTheirReplicas) {
  // Context 32,768, 4 replicas that merge up to 4: a share is 8,192 tokens.
  const SequenceLengths lengths =
      tokens({32768, 16384, 8192, 8192, 8192, 4096, 4096, 4096, 2048, 2048, 100});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made =
      made_by("context-parallel", job_of(layout, 4, Tokens(32768)), lengths, cost);
  ASSERT_EQ(made.columns.size(), 4u);
  bool any_shared = false;
  for (std::size_t r = 0; r < 4; ++r) {
    const auto& own = made.plan.replicas[r].packs.forward;
    ASSERT_EQ(made.columns[r].size(), own.size());
    EXPECT_TRUE(std::is_sorted(made.columns[r].begin(), made.columns[r].end(), std::less_equal{}));
    for (std::size_t p = 0; p < own.size(); ++p) {
      EXPECT_LE(own[p].tokens(), Tokens(8192) * own[p].replicas);
      if (own[p].replicas == 1) continue;
      any_shared = true;
      const std::size_t first = r - r % static_cast<std::size_t>(own[p].replicas);
      const auto& others = made.plan.replicas[first].packs.forward;
      const auto same = std::find(others.begin(), others.end(), own[p]);
      ASSERT_NE(same, others.end());
      EXPECT_EQ(made.columns[first][static_cast<std::size_t>(same - others.begin())],
                made.columns[r][p]);
    }
  }
  EXPECT_TRUE(any_shared);
}

TEST(ContextParallelBaseline, NeedsItsColumnsForReplicasToMeet) {
  // A step in which replicas that share several packs run different numbers of packs between them:
  // by their indices alone one would run a later pack forward before the other runs the earlier one
  // backward, and each would wait for the other.
  const SequenceLengths lengths = tokens({8782, 13069, 30680, 1084, 15867});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(4);
  const BaselinePlan made =
      made_by("context-parallel", job_of(layout, 4, Tokens(32768)), lengths, cost);
  const std::int32_t columns =
      1 + std::ranges::max(made.columns, {}, [](const auto& own) { return own.back(); }).back();
  std::vector<Schedule> by_index, by_column;
  for (std::size_t r = 0; r < 4; ++r) {
    by_index.push_back(one_f_one_b(made.plan.replicas[r].packs, 4));
    by_column.push_back(columned_one_f_one_b(made.columns[r], columns, 4));
  }
  EXPECT_FALSE(check_step(made.plan, by_index).empty());
  EXPECT_EQ(check_step(made.plan, by_column), std::vector<std::string>{});
}

TEST(TokenBalancedBaseline, SharesEveryPackBetweenGroupsOfOneSize) {
  // Context 16,384 over 8,192: groups of 2. Packs 16,384 | 10,000 + 6,000 | 9,000, dealt in turn.
  const SequenceLengths lengths = tokens({16384, 10000, 9000, 6000});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made =
      made_by("token-balanced", job_of(layout, 4, Tokens(16384)), lengths, cost);
  const auto& replicas = made.plan.replicas;
  EXPECT_EQ(members(replicas[0].packs.forward), (Packs{{0}, {2}}));
  EXPECT_EQ(members(replicas[2].packs.forward), (Packs{{1, 3}}));
  EXPECT_EQ(replicas[1], replicas[0]);
  EXPECT_EQ(replicas[3], replicas[2]);
  for (const ReplicaPlan& replica : replicas)
    for (const MicroPack& pack : replica.packs.forward) EXPECT_EQ(pack.replicas, 2);
}

TEST(TokenBalancedBaseline, SharesNothingWhereGroupsWouldNotDivideTheReplicas) {
  const SequenceLengths lengths = tokens({16384});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made =
      made_by("token-balanced", job_of(layout, 3, Tokens(16384)), lengths, cost);
  EXPECT_EQ(made.plan.replicas[0].packs.forward.at(0).replicas, 1);
}

}  // namespace
}  // namespace slimpack
