#include "slimpack/solver/share_fit.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "slimpack/base/random.h"
#include "tests/solver/random_shares.h"

namespace slimpack {
namespace {

/// Recounts the loads from the places.
std::vector<double> loads_of(const ShareProblem& problem, const ShareFit& fit) {
  std::vector<double> load(problem.speed.size(), problem.around);
  for (std::size_t i = 0; i < fit.place.size(); ++i) {
    const auto [k, first] = fit.place[i];
    for (std::size_t r = first; r < first + (std::size_t{1} << k); ++r)
      load.at(r) += problem.load[k][i] / problem.speed[r];
  }
  return load;
}

RC_GTEST_PROP(ShareFit, PutsEveryItemOnAGroupThatMayRunItWithinTheStep, (std::uint64_t seed)) {
  Rng rng(seed);
  const ShareProblem problem = random_shares(rng);
  const ShareFit fit = share_fit(problem);
  RC_ASSERT(fit.place.size() == problem.load.front().size());
  for (std::size_t i = 0; i < fit.place.size(); ++i) {
    const auto [k, first] = fit.place[i];
    RC_ASSERT(first % (std::size_t{1} << k) == 0);
    RC_ASSERT(problem.step.at(k)[i] <= fit.step);
  }
  const std::vector<double> load = loads_of(problem, fit);
  for (std::size_t r = 0; r < load.size(); ++r) {
    RC_ASSERT(std::abs(load[r] - fit.load[r]) <= 1e-9 * fit.step);
    RC_ASSERT(load[r] <= fit.step * (1 + 1e-9));
  }
}

RC_GTEST_PROP(ShareFit, IsNoShorterThanTheBestOfAllWaysAndAtMostHalfAsLongAgain,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const ShareProblem problem = random_shares(rng);
  const double best = least_step_of_all(problem);
  const double step = share_fit(problem).step;
  RC_ASSERT(step >= best * (1 - 1e-9));
  RC_ASSERT(step <= 1.5 * best);
  RC_ASSERT(share_fit(problem).place == share_fit(problem).place);
}

TEST(ShareFit, FillsTheFullestReplicaThatHasRoom) {
  // Least loaded first is 5 + 4 and 5 + 3, then 11 with the last 3. 5 + 5 and 4 + 3 + 3 are 10.
  const ShareFit fit = share_fit(shares_of({{5, 5, 4, 3, 3}}, 2));
  EXPECT_NEAR(fit.step, 10, 10 * 2e-4);
  EXPECT_EQ(fit.load, (std::vector<double>{10, 10}));
}

TEST(ShareFit, TakesALargerGroupWhereThatLeavesNoHole) {
  // Three of 60 on two replicas. One threshold merges none (120) or all (93 each). Two alone and
  // one on both are 60 + 31.
  const ShareFit fit = share_fit(shares_of({{60, 60, 60}, {31, 31, 31}}, 2));
  EXPECT_EQ(fit.load, (std::vector<double>{91, 91}));
}

TEST(ShareFit, LeavesLargerGroupsEmptyForWhatNeedsThem) {
  // 5 alone fits on each of three replicas. On the third one it leaves the pair to 4 and 4, which
  // no replica may run alone: 5. On the first one it would be 5 + 4.
  ShareProblem problem = shares_of({{5, 8}, {5, 4}}, 3);
  EXPECT_NEAR(share_fit(problem).step, 5, 5 * 2e-4);
}

TEST(ShareFit, PutsAllOnLargerGroupsWhereTheSmallestThatMayRunThemFillTheStep) {
  // Either item takes a step of 9 alone. On a pair the first is 4 + 4, the second takes a step of 9
  // there, too; on all four replicas they are 2 and 3 each.
  ShareProblem problem = shares_of({{8, 7}, {4, 5}, {2, 3}}, 4);
  problem.step = {{9, 9}, {5, 9}, {4, 4}};
  EXPECT_NEAR(share_fit(problem).step, 5, 5 * 2e-4);
}

TEST(ShareFit, LeavesRoomForWhatIsPouredAround) {
  // 8 and 8 would be a step of 8 on two replicas, but 10 more are poured: 13 each.
  ShareProblem problem = shares_of({{8, 8}}, 2);
  problem.more = 10;
  EXPECT_NEAR(share_fit(problem).step, 13, 13 * 2e-4);
}

}  // namespace
}  // namespace slimpack
