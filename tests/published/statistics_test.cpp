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

}  // namespace
}  // namespace slimpack::bench
