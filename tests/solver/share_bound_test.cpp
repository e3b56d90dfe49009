#include "slimpack/solver/share_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "slimpack/base/random.h"
#include "tests/solver/random_shares.h"

namespace slimpack {
namespace {

RC_GTEST_PROP(ShareBound, NoAssignmentIsBelowIt, (std::uint64_t seed)) {
  Rng rng(seed);
  const ShareProblem problem = random_shares(rng, rng.below(2) == 0);
  const double best = least_step_of_all(problem);
  const double bound = share_bound(problem, rng.below(2) == 0 ? 0 : best * rng.uniform());
  RC_ASSERT(bound <= best * (1 + 1e-9));
  RC_ASSERT(share_bound(problem, best) >= best * (1 - 1e-9));
}

void expect_bound(const ShareProblem& problem, double expected) {
  EXPECT_LE(share_bound(problem, 0), expected);
  EXPECT_GE(share_bound(problem, 0), expected * (1 - 1e-4));
}

TEST(ShareBound, IsTheMeanLoadWhereNothingIsHeavy) {
  expect_bound(shares_of({{10, 20, 30, 40, 60}}, 2), 80);
}

TEST(ShareBound, CountsWhatMergingCosts) {
  // 100 runs on two of four replicas for 60 each, or on four for 40 each; 20 others take 4 each.
  // On one replica the step is 100. On two, 120 + 80 are 50 for each of four, but that step is 60.
  // On four, 160 + 80 are 60 for each.
  std::vector<std::vector<double>> load{{100}, {60}, {40}};
  for (int i = 0; i < 20; ++i)
    for (std::size_t k = 0; k < 3; ++k) load[k].push_back(k == 0 ? 4 : 10);
  expect_bound(shares_of(load, 4), 60);
  // With 60 others on two: 120 + 240 are 90 for each.
  for (int i = 0; i < 40; ++i)
    for (std::size_t k = 0; k < 3; ++k) load[k].push_back(k == 0 ? 4 : 10);
  expect_bound(shares_of(load, 4), 90);
}

TEST(ShareBound, CountsTheSlicesThatAShortStepTakes) {
  // Two replicas: 60 and 20. The step is 60, where the 60 takes 10 more in steps below 65, and 30
  // more in steps below 62: 65 is what it gets with a load of 60, 70 with one of 70.
  ShareProblem problem = shares_of({{60, 20}}, 2);
  problem.cut = {{{{65, 70}, {62, 90}}, {}}};
  expect_bound(problem, 65);
  // With 30 and 70 besides, 180 are 90 for each of the two, and nothing is cut.
  problem = shares_of({{60, 20, 30, 70}}, 2);
  problem.cut = {{{{65, 70}}, {}, {}, {}}};
  expect_bound(problem, 90);
  // If the 60 takes 10 more below 92: 190 are 95 for each, and a step of 92 is shorter.
  problem.cut = {{{{92, 70}}, {}, {}, {}}};
  expect_bound(problem, 92);
}

TEST(ShareBound, LetsTwoItemsOfMoreThanHalfAReplicaNotShareOne) {
  // Three of 60 on two replicas: two of them share one.
  expect_bound(shares_of({{60, 60, 60}}, 2), 120);
  // If they may be merged, 30 on each of both: 90.
  expect_bound(shares_of({{60, 60, 60}, {30, 30, 30}}, 2), 90);
}

TEST(ShareBound, AddsWhatIsAround) {
  ShareProblem problem = shares_of({{10, 10}}, 2);
  problem.around = 5;
  for (double& step : problem.step.front()) step += problem.around;
  expect_bound(problem, 15);
  // At speeds of 1 and 3: 20 / 4.
  problem.speed = {1, 3};
  for (double& step : problem.step.front()) step = 5 + 10.0 / 3;
  expect_bound(problem, 10);
}

}  // namespace
}  // namespace slimpack
