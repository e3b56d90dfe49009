#include "slimpack/milp/solve.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <thread>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack::milp {
namespace {

/// Choose items of the most value within the weight: cost −value.
struct Knapsack {
  std::vector<double> value;
  std::vector<double> weight;
  double capacity;
};

Model knapsack_model(const Knapsack& problem) {
  Model model;
  std::vector<Term> terms;
  for (std::size_t i = 0; i < problem.value.size(); ++i) {
    terms.push_back({model.add_binary(-problem.value[i]), problem.weight[i]});
  }
  model.add_row(-kInfinity, terms, problem.capacity);
  return model;
}

double best_by_enumeration(const Knapsack& problem) {
  double best = 0;
  for (std::uint32_t set = 0; set < (1U << problem.value.size()); ++set) {
    double value = 0;
    double weight = 0;
    for (std::size_t i = 0; i < problem.value.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      value += problem.value[i];
      weight += problem.weight[i];
    }
    if (weight <= problem.capacity) best = std::max(best, value);
  }
  return best;
}

/// Jobs to machines, minimise the longest machine: hard to prove, so limits are reached.
Model makespan_model(std::uint64_t seed, int jobs, int machines) {
  Rng rng(seed);
  Model model;
  std::vector<std::vector<Term>> load(static_cast<std::size_t>(machines));
  const Variable longest = model.add_continuous(0, kInfinity, 1);
  for (int j = 0; j < jobs; ++j) {
    const double time = 1 + rng.uniform() * 99;
    std::vector<Term> once;
    for (auto& terms : load) {
      const Variable here = model.add_binary();
      once.push_back({here, 1});
      terms.push_back({here, time});
    }
    model.add_row(1, once, 1);
  }
  for (auto& terms : load) {
    terms.push_back({longest, -1});
    model.add_row(-kInfinity, terms, 0);
  }
  return model;
}

bool same(const Outcome& a, const Outcome& b) {
  return a.status == b.status && a.values == b.values && a.objective == b.objective &&
         a.bound == b.bound && a.nodes == b.nodes;
}

TEST(Solve, FindsTheBestSetOfAKnapsack) {
  // The weights are 5, 4 and 3, and 7 fit: {4, 3} is worth 40 + 25 = 65; {5} alone 50.
  const Outcome outcome = solve(knapsack_model({{50, 40, 25}, {5, 4, 3}, 7}), {});
  EXPECT_EQ(outcome.status, Status::kOptimal);
  EXPECT_EQ(outcome.values, (std::vector<double>{0, 1, 1}));
  EXPECT_DOUBLE_EQ(outcome.objective, -65);
  EXPECT_NEAR(outcome.bound, -65, 1e-4);
}

RC_GTEST_PROP(Solve, EqualsEnumeration, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  Knapsack problem{{}, {}, 1 + rng.uniform() * 30};
  for (std::uint64_t i = 1 + rng.below(10); i > 0; --i) {
    problem.value.push_back(static_cast<double>(1 + rng.below(50)));
    problem.weight.push_back(static_cast<double>(1 + rng.below(20)));
  }
  const Outcome outcome = solve(knapsack_model(problem), {});
  RC_ASSERT(outcome.status == Status::kOptimal);
  RC_ASSERT(outcome.objective == -best_by_enumeration(problem));
  RC_ASSERT(outcome.bound <= outcome.objective);
}

TEST(Solve, SolvesModelsWithoutIntegers) {
  // Least x + 2y with x + y ≥ 3 and x ≤ 2: x = 2, y = 1.
  Model model;
  const Variable x = model.add_continuous(0, 2, 1);
  const Variable y = model.add_continuous(0, kInfinity, 2);
  model.add_row(3, std::vector<Term>{{x, 1}, {y, 1}}, kInfinity);
  const Outcome outcome = solve(model, {});
  EXPECT_EQ(outcome.status, Status::kOptimal);
  EXPECT_DOUBLE_EQ(outcome.objective, 4);
  EXPECT_DOUBLE_EQ(outcome.bound, 4);
  EXPECT_DOUBLE_EQ(outcome.values[y.index()], 1);
}

TEST(Solve, SolvesModelsWithoutRowsAndWithoutVariables) {
  Model model;
  EXPECT_EQ(solve(model, {}).status, Status::kOptimal);
  model.add_binary(-1);
  model.add_binary(1);
  const Outcome outcome = solve(model, {});
  EXPECT_EQ(outcome.status, Status::kOptimal);
  EXPECT_EQ(outcome.values, (std::vector<double>{1, 0}));
}

TEST(Solve, ProvesThatThereIsNoSolution) {
  Model model;
  const Variable a = model.add_binary();
  const Variable b = model.add_binary();
  model.add_row(1, std::vector<Term>{{a, 1}, {b, 1}}, 1);
  model.add_row(0, std::vector<Term>{{a, 1}, {b, -1}}, 0);
  const Outcome outcome = solve(model, {});
  EXPECT_EQ(outcome.status, Status::kInfeasible);
  EXPECT_TRUE(outcome.values.empty());
  EXPECT_EQ(outcome.bound, kInfinity);
}

TEST(Solve, RespectsFixedVariables) {
  Model fixed;
  const Variable first = fixed.add_binary(-50);
  const Variable second = fixed.add_binary(-40);
  fixed.add_row(-kInfinity, std::vector<Term>{{first, 5}, {second, 4}}, 7);
  fixed.fix(first, 0);
  EXPECT_EQ(solve(fixed, {}).values, (std::vector<double>{0, 1}));
}

TEST(Solve, StopsAtTheNodeLimitWithASolutionAndABound) {
  const Model model = makespan_model(1, 24, 5);
  const Outcome outcome = solve(model, {.nodes = 1, .relative_gap = 0});
  ASSERT_EQ(outcome.status, Status::kFeasible);
  EXPECT_LE(outcome.nodes, 1);
  EXPECT_LT(outcome.bound, outcome.objective);
  EXPECT_GT(outcome.bound, 0);
}

TEST(Solve, StopsAtOnceWithoutTime) {
  const Outcome outcome = solve(makespan_model(1, 24, 5), {.seconds = 0});
  EXPECT_EQ(outcome.status, Status::kLimit);
  EXPECT_TRUE(outcome.values.empty());
  EXPECT_EQ(outcome.objective, kInfinity);
}

TEST(Solve, NeverEndsWorseThanItsStart) {
  const Model model = makespan_model(2, 30, 4);
  const Outcome best = solve(model, {.nodes = 200, .relative_gap = 0.001});
  ASSERT_FALSE(best.values.empty());
  const Outcome again = solve(model, {.nodes = 0, .relative_gap = 0}, best.values);
  EXPECT_TRUE(again.status == Status::kFeasible || again.status == Status::kOptimal);
  EXPECT_LE(again.objective, best.objective + 1e-6);
}

TEST(Solve, IgnoresAStartThatBreaksTheModel) {
  const Model model = knapsack_model({{50, 40, 25}, {5, 4, 3}, 7});
  const Outcome outcome = solve(model, {}, std::vector<double>{1, 1, 1});
  EXPECT_EQ(outcome.status, Status::kOptimal);
  EXPECT_DOUBLE_EQ(outcome.objective, -65);
}

TEST(Solve, RefusesAStartThatDoesNotFitTheModel) {
  const Model model = knapsack_model({{50, 40, 25}, {5, 4, 3}, 7});
  EXPECT_THROW((void)solve(model, {}, std::vector<double>{1, 0}), InternalError);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)solve(model, {}, std::vector<double>{1, 0, nan}), InternalError);
}

TEST(Solve, RefusesLimitsThatAreNone) {
  const Model model = knapsack_model({{50}, {5}, 7});
  EXPECT_THROW((void)solve(model, {.nodes = -1}), InternalError);
  EXPECT_THROW((void)solve(model, {.relative_gap = -0.5}), InternalError);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)solve(model, {.relative_gap = nan}), InternalError);
  EXPECT_THROW((void)solve(model, {.seconds = nan}), InternalError);
}

TEST(Solve, RefusesAModelWithoutAFiniteOptimum) {
  Model model;
  model.add_continuous(-kInfinity, 0, 1);
  EXPECT_THROW((void)solve(model, {}), InternalError);
}

TEST(Solve, GivesTheSameOutcomeEveryTime) {
  const Model model = makespan_model(3, 20, 4);
  const SolveLimits limits{.nodes = 50, .relative_gap = 0};
  const Outcome first = solve(model, limits);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(solve(model, limits), first));
}

TEST(Solve, SolvesInTwoThreadsAtOnceAsInOne) {
  const SolveLimits limits{.nodes = 50, .relative_gap = 0};
  const Model one = makespan_model(4, 20, 4);
  const Model two = makespan_model(5, 22, 3);
  std::vector<Outcome> at_once(2);
  {
    std::jthread a([&] { at_once[0] = solve(one, limits); });
    std::jthread b([&] { at_once[1] = solve(two, limits); });
  }
  EXPECT_TRUE(same(at_once[0], solve(one, limits)));
  EXPECT_TRUE(same(at_once[1], solve(two, limits)));
}

}  // namespace
}  // namespace slimpack::milp
