#include "slimpack/solver/balance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;

/// Whole numbers and powers of two, so that sums are exact and optima well apart.
BalanceProblem random_problem(Rng& rng, std::uint64_t most_items, std::uint64_t most_replicas) {
  BalanceProblem problem;
  const bool alike = rng.below(2) == 0;
  for (std::uint64_t i = rng.below(most_items + 1); i > 0; --i) {
    problem.work.push_back(static_cast<double>(rng.below(4) == 0 ? rng.below(100) : rng.below(10)));
  }
  for (std::uint64_t r = 1 + rng.below(most_replicas); r > 0; --r) {
    BalanceReplica replica;
    if (!alike) {
      replica.speed = static_cast<double>(1 << rng.below(3)) / 2;
      replica.carried = static_cast<double>(rng.below(3) * rng.below(20));
    }
    problem.replicas.push_back(replica);
  }
  return problem;
}

std::vector<double> loads(const BalanceProblem& problem, const std::vector<std::int32_t>& replica) {
  std::vector<double> load;
  for (std::size_t r = 0; r < problem.replicas.size(); ++r) {
    double work = 0;
    for (std::size_t i = 0; i < replica.size(); ++i) {
      if (replica[i] == static_cast<std::int32_t>(r)) work += problem.work[i];
    }
    load.push_back(problem.replicas[r].carried + work / problem.replicas[r].speed);
  }
  return load;
}

double largest(const std::vector<double>& load) {
  return *std::max_element(load.begin(), load.end());
}

double longest_first_alone(const BalanceProblem& problem) {
  std::vector<double> work = problem.work;
  std::sort(work.begin(), work.end(), std::greater<>());
  std::vector<double> load;
  for (const BalanceReplica& replica : problem.replicas) load.push_back(replica.carried);
  for (const double w : work) {
    std::vector<double> end;
    for (std::size_t r = 0; r < load.size(); ++r)
      end.push_back(load[r] + w / problem.replicas[r].speed);
    const auto best = std::min_element(end.begin(), end.end()) - end.begin();
    load[static_cast<std::size_t>(best)] = end[static_cast<std::size_t>(best)];
  }
  return largest(load);
}

void expect_consistent(const BalanceProblem& problem, const Balance& result) {
  RC_ASSERT(result.replica.size() == problem.work.size());
  for (const std::int32_t r : result.replica) {
    RC_ASSERT(r >= 0 && static_cast<std::size_t>(r) < problem.replicas.size());
  }
  RC_ASSERT(result.load == loads(problem, result.replica));
  RC_ASSERT(result.largest == largest(result.load));
  RC_ASSERT(result.bound <= result.largest);
}

TEST(Balance, GivesEveryItemToWhereItEndsEarliest) {
  // 5 and 4 first, 3 joins the 4, 3 the 5: 8 and 7. No exchange is better: 15 is odd.
  const Balance result = balance({{3, 5, 4, 3}, {{}, {}}});
  EXPECT_EQ(result.replica, (std::vector<std::int32_t>{1, 0, 1, 0}));
  EXPECT_EQ(result.load, (std::vector<double>{8, 7}));
  EXPECT_EQ(result.largest, 8);
  EXPECT_EQ(result.bound, 7.5);
}

TEST(Balance, ImprovesLongestFirstByAnExchange) {
  // Longest first: 3 | 3, then 2 | 2, then 2: 7 and 5. Exchanging a 3 for a 2: 6 and 6.
  const Balance result = balance({{3, 3, 2, 2, 2}, {{}, {}}});
  EXPECT_EQ(longest_first_alone({{3, 3, 2, 2, 2}, {{}, {}}}), 7);
  EXPECT_EQ(result.largest, 6);
  EXPECT_EQ(result.bound, 6);
}

TEST(Balance, CountsSpeedsAndCarriedLoads) {
  // A replica of twice the speed; the other carries 4. Water: 10 + 4 = 14 ns·speed over 3, below
  // 4's level 4.67: 2·L + (L − 4) = 10, L = 14/3. Best is 8 on the fast one (4 ns) and 2 on the
  // slow (6 ns), or all on the fast one: 5 ns.
  const BalanceProblem problem{{8, 2}, {{.speed = 2}, {.carried = 4}}};
  const Balance result = balance(problem);
  EXPECT_EQ(result.replica, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(result.load, (std::vector<double>{5, 4}));
  EXPECT_DOUBLE_EQ(result.bound, 14.0 / 3);
}

TEST(Balance, LeavesReplicasEmptyWhenThereAreMoreThanItems) {
  const Balance result = balance({{7, 9}, {{}, {}, {}, {}, {}}});
  EXPECT_EQ(result.replica, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(result.largest, 9);
  EXPECT_EQ(result.bound, 9);
}

TEST(Balance, HasNothingToDoWithoutItems) {
  const Balance result = balance({{}, {{.carried = 3}, {.carried = 5}}});
  EXPECT_TRUE(result.replica.empty());
  EXPECT_EQ(result.largest, 5);
  EXPECT_EQ(result.bound, 5);
}

TEST(BalanceBound, CountsThatSomeItemsMustShareAReplica) {
  // Two of the 3 heaviest items share one of 2 replicas: 6 + 5. Water says 17/2, the largest 7.
  EXPECT_EQ(balance_bound({{7, 6, 5}, {{}, {}}}), 11);
  // Three of 5 equal items share one.
  EXPECT_EQ(balance_bound({{4, 4, 4, 4, 4}, {{}, {}}}), 12);
  // A carried load counts as an item: 6, 5 and 7 on two replicas.
  EXPECT_EQ(balance_bound({{6, 5}, {{.carried = 7}, {}}}), 11);
}

TEST(BalanceBound, PutsTheLargestItemWhereItEndsEarliest) {
  EXPECT_EQ(balance_bound({{12}, {{.speed = 1}, {.speed = 4, .carried = 2}}}), 5);
}

RC_GTEST_PROP(Balance, LiesBetweenBoundAndLongestFirst, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const BalanceProblem problem = random_problem(rng, 60, 9);
  const Balance result = balance(problem);
  expect_consistent(problem, result);
  RC_ASSERT(result.largest <= longest_first_alone(problem) + kRounding);
  RC_ASSERT(balance(problem) == result);
}

RC_GTEST_PROP(Balance, NoMoveOrExchangeLowersTheLargestLoad, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const BalanceProblem problem = random_problem(rng, 20, 5);
  const Balance result = balance(problem);
  const auto top = static_cast<std::int32_t>(
      std::max_element(result.load.begin(), result.load.end()) - result.load.begin());
  // Several may be loaded the most: then lightening one of them lowers nothing.
  const auto must_not_help = [&](const std::vector<std::int32_t>& other) {
    const std::vector<double> load = loads(problem, other);
    RC_ASSERT(*std::max_element(load.begin(), load.end()) >= result.largest - kRounding);
  };
  for (std::size_t i = 0; i < problem.work.size(); ++i) {
    if (result.replica[i] != top) continue;
    for (std::size_t r = 0; r < problem.replicas.size(); ++r) {
      std::vector<std::int32_t> moved = result.replica;
      moved[i] = static_cast<std::int32_t>(r);
      if (moved[i] != top) must_not_help(moved);
    }
    for (std::size_t j = 0; j < problem.work.size(); ++j) {
      std::vector<std::int32_t> exchanged = result.replica;
      std::swap(exchanged[i], exchanged[j]);
      if (result.replica[j] != top) must_not_help(exchanged);
    }
  }
}

RC_GTEST_PROP(BalanceExact, IsNeverWorseThanAnyStart, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const BalanceProblem problem = random_problem(rng, 12, 4);
  std::vector<std::int32_t> replica;
  for (std::size_t i = 0; i < problem.work.size(); ++i) {
    replica.push_back(static_cast<std::int32_t>(rng.below(problem.replicas.size())));
  }
  const Balance start = balance_of(problem, replica, 0);
  const milp::SolveLimits limits{.nodes = 1};
  const Balance result = balance_exact(problem, start, limits);
  expect_consistent(problem, result);
  RC_ASSERT(result.largest <= start.largest);
  RC_ASSERT(balance_exact(problem, start, limits) == result);
}

TEST(BalanceExact, KeepsItsStartWhenTheLimitsLeaveNoTime) {
  // 3, 3, 2, 2, 2 with all on one replica: the optimum is 6, the start has 12.
  const BalanceProblem problem{{3, 3, 2, 2, 2}, {{}, {}}};
  const Balance start = balance_of(problem, {0, 0, 0, 0, 0}, 0);
  const Balance result = balance_exact(problem, start, {.seconds = 0});
  EXPECT_EQ(result.replica, start.replica);
  EXPECT_EQ(result.largest, 12);
  EXPECT_EQ(result.bound, 6);
}

TEST(Balance, RefusesNumbersThatAreNoLoads) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)balance({{1}, {}}), InternalError);
  EXPECT_THROW((void)balance({{-1}, {{}}}), InternalError);
  EXPECT_THROW((void)balance({{nan}, {{}}}), InternalError);
  EXPECT_THROW((void)balance({{kInfinity}, {{}}}), InternalError);
  EXPECT_THROW((void)balance({{1}, {{.speed = 0}}}), InternalError);
  EXPECT_THROW((void)balance({{1}, {{.speed = nan}}}), InternalError);
  EXPECT_THROW((void)balance({{1}, {{.carried = -1}}}), InternalError);
  EXPECT_THROW((void)balance({{1}, {{.carried = nan}}}), InternalError);
}

TEST(BalanceExact, RefusesAStartThatIsNoAssignmentAndModelsThatAreTooLarge) {
  const BalanceProblem problem{{1, 2}, {{}, {}}};
  EXPECT_THROW((void)balance_exact(problem, {{0}, {}, 3, 0}, {}), InternalError);
  EXPECT_THROW((void)balance_exact(problem, {{0, 2}, {}, 3, 0}, {}), InternalError);
  EXPECT_THROW((void)balance_exact(problem, {{0, -1}, {}, 3, 0}, {}), InternalError);
  const BalanceProblem large{std::vector<double>(kMaxExactBalance, 1), {{}, {}}};
  EXPECT_THROW((void)balance_exact(large, balance(large), {}), InternalError);
}

}  // namespace
}  // namespace slimpack
