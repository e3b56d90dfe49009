#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "slimpack/base/random.h"

namespace slimpack::bench {
namespace {

TEST(Errors, AreThoseOfPredictions) {
  // Errors +0.1, −0.2 and +0.6: sizes 0.1, 0.2 and 0.6.
  const std::vector<Compared> all{{1.1, 1}, {1.6, 2}, {16, 10}};
  const Errors errors = errors_of(all);
  EXPECT_EQ(errors.count, 3);
  EXPECT_NEAR(errors.mean, 0.3, 1e-12);
  EXPECT_NEAR(errors.median, 0.2, 1e-12);
  EXPECT_NEAR(errors.worst, 0.6, 1e-12);
  EXPECT_NEAR(errors.bias, 0.5 / 3, 1e-12);
  EXPECT_EQ(errors_of({}).count, 0);
}

/// Kendall's tau-b by its definition over signs, from the whole matrix of ordered pairs.
double tau_by_signs(const std::vector<Compared>& group) {
  const auto sign = [](double x) { return (x > 0) - (x < 0); };
  double product = 0, measured = 0, predicted = 0;
  for (const Compared& a : group)
    for (const Compared& b : group) {
      const int m = sign(a.measured - b.measured);
      const int p = sign(a.predicted - b.predicted);
      product += m * p;
      measured += m * m;
      predicted += p * p;
    }
  return measured * predicted == 0 ? 0 : product / std::sqrt(measured * predicted);
}

TEST(Ranking, IsTauBOfRandomGroupsWithTies) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Compared> group;
    const int size = 1 + static_cast<int>(rng.uniform() * 9);
    // Five values each, so that most groups have ties of both kinds.
    for (int i = 0; i < size; ++i)
      group.push_back({1 + std::floor(rng.uniform() * 5), 1 + std::floor(rng.uniform() * 5)});
    EXPECT_NEAR(ranked_pairs(group).tau(), tau_by_signs(group), 1e-12);
  }
}

TEST(Ranking, OfSeveralGroupsCountsAllTheirPairs) {
  // Three pairs in order, and one pair in reverse: (3 − 1) ÷ 4.
  RankedPairs pairs = ranked_pairs(std::vector<Compared>{{1, 1}, {2, 2}, {3, 3}});
  pairs += ranked_pairs(std::vector<Compared>{{1, 2}, {2, 1}});
  EXPECT_EQ(pairs.concordant, 3);
  EXPECT_EQ(pairs.discordant, 1);
  EXPECT_DOUBLE_EQ(pairs.tau(), 0.5);
}

TEST(Choice, LosesWhatTheFastestWouldHaveSaved) {
  // The least prediction, 1, was measured as 6, the fastest as 5.
  EXPECT_DOUBLE_EQ(choice_loss(std::vector<Compared>{{2, 5}, {1, 6}, {3, 9}}), 0.2);
  EXPECT_EQ(choice_loss(std::vector<Compared>{{1, 5}, {2, 6}}), 0);
}

TEST(Choice, IsRatedInTurnsThatHadNoPartInIt) {
  // Way 0 takes 10, 10, 10; way 1 takes 8, 12, 10; way 2 takes 13, 9, 11.
  // Turn 0: of the others, sums 20, 22, 20: way 0, in turn 0 10; the shortest 8.
  // Turn 1: sums 20, 18, 24: way 1, in turn 1 12; the shortest 9.
  // Turn 2: sums 20, 20, 22: way 0, in turn 2 10; the shortest 10.
  const WayTurns ways{{10, 10, 10}, {8, 12, 10}, {13, 9, 11}};
  EXPECT_NEAR(held_out_loss(ways, 0), (0 + (10.0 / 12 - 1) + 0) / 3, 1e-12);
  EXPECT_NEAR(held_out_loss(ways, 2), (0.3 + (9.0 / 12 - 1) + 0.1) / 3, 1e-12);
  EXPECT_NEAR(loss_of_measuring(ways), (0.25 + (12.0 / 9 - 1) + 0) / 3, 1e-12);
}

TEST(Choice, OfTheFastestWayLosesNothingWithoutNoise) {
  const WayTurns ways{{5, 5}, {4, 4}};
  EXPECT_EQ(held_out_loss(ways, 1), 0);
  EXPECT_EQ(held_out_loss(ways, 0), 0.25);
  EXPECT_EQ(loss_of_measuring(ways), 0);
}

}  // namespace
}  // namespace slimpack::bench
