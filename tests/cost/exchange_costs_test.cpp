#include <gtest/gtest.h>

#include "slimpack/cost/abilities.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"
#include "tests/support/counted_costs.h"

namespace slimpack {
namespace {

using testing::slice;

/// One sequence of three slices of 4 tokens, with 10, 26 and 42 query–key pairs, on a stage of one
/// layer and one of two.
struct Exchanged {
  RecomputingCosts cost{testing::round_model()};
  StageLayout layout{{0, 1, 3}};
  ReplicaPacks replica;
  std::int32_t replicas = 1;

  Exchanged(double latency, double per_byte) {
    cost.transfer.latency = latency;
    cost.transfer.per_byte = per_byte;
    for (const int begin : {0, 4, 8})
      replica.packs.forward.push_back({{slice(0, begin, begin + 4)}});
    replica.packs.backward.assign(replica.packs.forward.rbegin(), replica.packs.forward.rend());
    replica.times = task_times(cost, layout, replica.packs);
  }

  /// Nanoseconds by which an exchange of two keys changes its two actions. The giver runs the last
  /// slice on stage 0, the taker the middle one on stage 1. The stages have one layer in common.
  struct Change {
    std::int64_t giver, taker;
  };
  Change change(Pass pass, std::span<const double> speed = {}) {
    const PackId last(pass == Pass::kForward ? 2 : 0), middle(1);
    const auto& times = pass == Pass::kForward ? replica.times.forward : replica.times.backward;
    const Nanos giver = times[0][last.index()], taker = times[1][middle.index()];
    const ContextExchange exchange{{StageId(0), pass, last}, {StageId(1), pass, middle}, Tokens(2)};
    const OneReplica one{replicas, {speed.begin(), speed.end()}};
    table_of(cost, layout, one).add_exchanges(replica, std::span(&exchange, 1));
    return {(times[0][last.index()] - giver).count(), (times[1][middle.index()] - taker).count()};
  }
};

TEST(ExchangeCosts, MovePairsFromTheGiverToTheTaker) {
  // 4 queries · 2 keys, at 1 ns a pair. The taker is done with them at 26 + 8 = 34 of the layer,
  // as is the giver with its 42 - 8.
  const Exchanged::Change change = Exchanged(0, 0).change(Pass::kForward);
  EXPECT_EQ(change.giver, -8);
  EXPECT_EQ(change.taker, 8);
}

TEST(ExchangeCosts, CountGradientsInBackward) {
  const Exchanged::Change change = Exchanged(0, 0).change(Pass::kBackward);  // at 2 ns a pair
  EXPECT_EQ(change.giver, -16);
  EXPECT_EQ(change.taker, 16);
}

TEST(ExchangeCosts, LetTheGiverWaitForTheWayBack) {
  // There, the tensors travel while the taker attends to its own slice; back, nobody does anything.
  const Exchanged::Change change = Exchanged(5, 0).change(Pass::kForward);
  EXPECT_EQ(change.giver, -8 + 5);
  EXPECT_EQ(change.taker, 8);
}

TEST(ExchangeCosts, LetBothWaitForASlowLink) {
  // The taker waits from 26 to 30 and is done at 38; the giver gets it at 68 instead of 42.
  const Exchanged::Change change = Exchanged(30, 0).change(Pass::kForward);
  EXPECT_EQ(change.giver, 26);
  EXPECT_EQ(change.taker, 4 + 8);
}

TEST(ExchangeCosts, CountBytesOfQueriesKeysAndResults) {
  // Far more than attention takes, so that only transfers and the 8 pairs count: 8 + there + back
  // - 42. There 4 queries and 2 keys and values, back 4 outputs and log-sum-exps.
  Exchanged exchanged(0, 1000);
  const Decoder& shape = exchanged.cost.shape;
  const std::int64_t q = 4 * shape.kinds[0].q_width(), k = 4 * shape.kinds[0].k_width(),
                     lse = 4 * shape.kinds[0].num_heads;
  EXPECT_EQ(exchanged.change(Pass::kForward).giver,
            8 + 1000 * (4 * q + 2 * 2 * k) + 1000 * 4 * (q + lse) - 42);
  // Backward, at 84 ns: there also outputs, their gradients and log-sum-exps, back the gradients.
  EXPECT_EQ(Exchanged(0, 1000).change(Pass::kBackward).giver,
            16 + 1000 * (4 * (3 * q + lse) + 2 * 2 * k) + 1000 * (4 * q + 2 * 2 * k) - 84);
}

TEST(ExchangeCosts, FollowTheSpeedOfEachRank) {
  // The giver is half as fast: its own 34 pairs take 68, and 16 leave; the taker is done at 34.
  const std::vector<double> speed{0.5, 1};
  const Exchanged::Change change = Exchanged(0, 0).change(Pass::kForward, speed);
  EXPECT_EQ(change.giver, -16);
  EXPECT_EQ(change.taker, 8);
}

TEST(ExchangeCosts, KeepWhatTravelsForTheLayersHidden) {
  // With ZeRO-3 an action takes at least as long as its layers' weights travel: far longer here.
  Exchanged exchanged(0, 0);
  exchanged.cost.zero = 3;
  exchanged.cost.reduction.per_byte = 1000;
  exchanged.replicas = 2;
  exchanged.replica.times =
      task_times(exchanged.cost, exchanged.layout, exchanged.replica.packs, {2, {}});
  const Exchanged::Change change = exchanged.change(Pass::kForward);
  EXPECT_EQ(change.giver, 0);
  EXPECT_EQ(change.taker, 0);
}

TEST(ExchangeCosts, AreOfOurOwnLayersWithoutWindows) {
  Costs cost = testing::round_model();
  EXPECT_TRUE(abilities(cost).exchanges_attention);
  EXPECT_FALSE(abilities(testing::counted_costs({0, 0})).exchanges_attention);  // under autograd
  cost.kinds.front().forward.window = Tokens(64);
  EXPECT_FALSE(abilities(cost).exchanges_attention);
}

}  // namespace
}  // namespace slimpack
