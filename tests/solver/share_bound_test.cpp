#include "slimpack/solver/share_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "slimpack/base/random.h"

namespace slimpack {
namespace {

/// The least step of all ways to put the items on groups of neighbours.
class BruteForce {
 public:
  explicit BruteForce(const ShareProblem& problem)
      : problem_(problem), load_(problem.speed.size(), 0.0) {}

  double least_step() {
    place(0, 0);
    return least_;
  }

 private:
  void place(std::size_t item, double step) {
    if (item == problem_.load.front().size()) {
      for (std::size_t r = 0; r < load_.size(); ++r)
        step = std::max(step, problem_.around + load_[r] / problem_.speed[r]);
      least_ = std::min(least_, step);
      return;
    }
    for (std::size_t k = 0; k < problem_.load.size(); ++k)
      for (std::size_t first = 0; first + (std::size_t{1} << k) <= load_.size();
           first += std::size_t{1} << k) {
        for (const auto& [load, below] : ways(k, item)) {
          const std::vector<double> before = load_;
          for (std::size_t r = first; r < first + (std::size_t{1} << k); ++r) load_[r] += load;
          place(item + 1, std::max({step, problem_.step[k][item], below}));
          load_ = before;
        }
      }
  }

  struct Way {
    double load;
    double step;  ///< at least
  };

  /// An item may spend what one of its entries says: then no entry that says more binds.
  [[nodiscard]] std::vector<Way> ways(std::size_t k, std::size_t item) const {
    std::vector<Way> out{{problem_.load[k][item], 0}};
    if (problem_.cut.empty()) return out;
    for (const CutLoad& cut : problem_.cut[k][item]) {
      out.back().step = cut.below;
      out.push_back({cut.load, 0});
    }
    return out;
  }

  const ShareProblem& problem_;
  std::vector<double> load_;
  double least_ = std::numeric_limits<double>::infinity();
};

/// Up to three entries an item: the more slices, the more load and the shorter the step.
std::vector<std::vector<CutLoad>> random_cuts(Rng& rng, const std::vector<double>& loads,
                                              double around) {
  std::vector<std::vector<CutLoad>> out;
  for (double load : loads) {
    double below = around + load * (1 + 4 * rng.uniform());
    auto& cuts = out.emplace_back();
    for (std::uint64_t count = rng.below(4); count > 0; --count) {
      load *= 1 + rng.uniform();
      cuts.push_back({below, load});
      below *= rng.uniform();
    }
  }
  return out;
}

ShareProblem random_problem(Rng& rng) {
  ShareProblem problem;
  problem.around = rng.below(2) == 0 ? 0 : rng.uniform();
  problem.speed.assign(1 + rng.below(4), 1.0);
  if (rng.below(3) == 0)
    for (double& speed : problem.speed) speed = 0.5 + rng.uniform();
  const bool cuts = rng.below(2) == 0;
  const std::size_t items = 1 + rng.below(cuts ? 3 : 5);
  const double fastest = std::ranges::max(problem.speed);
  std::vector<double> load;
  // Some loads are equal, or fill a replica to the rounding.
  for (std::size_t i = 0; i < items; ++i)
    load.push_back(rng.below(2) == 0 ? 0.01 + rng.uniform()
                                     : 1.0 / static_cast<double>(1 + rng.below(4)));
  for (std::size_t k = 0; std::size_t{1} << k <= problem.speed.size(); ++k) {
    const auto replicas = static_cast<double>(std::size_t{1} << k);
    auto& loads = problem.load.emplace_back();
    auto& steps = problem.step.emplace_back();
    for (std::size_t i = 0; i < items; ++i) {
      loads.push_back(load[i] / replicas * (k > 0 && rng.below(2) == 0 ? 1 + rng.uniform() : 1));
      if (k > 0) loads.back() = std::max(loads.back(), problem.load[k - 1][i] / 2);
      steps.push_back(problem.around + loads.back() / fastest * (1 + rng.uniform()));
    }
    if (cuts) problem.cut.push_back(random_cuts(rng, loads, problem.around));
  }
  return problem;
}

RC_GTEST_PROP(ShareBound, NoAssignmentIsBelowIt, (std::uint64_t seed)) {
  Rng rng(seed);
  const ShareProblem problem = random_problem(rng);
  const double best = BruteForce(problem).least_step();
  const double bound = share_bound(problem, rng.below(2) == 0 ? 0 : best * rng.uniform());
  RC_ASSERT(bound <= best * (1 + 1e-9));
  RC_ASSERT(share_bound(problem, best) >= best * (1 - 1e-9));
}

/// A problem of one replica or of groups, in which an item's step is its load.
ShareProblem problem_of(std::vector<std::vector<double>> load, std::size_t replicas) {
  ShareProblem problem{std::move(load), {}, std::vector<double>(replicas, 1.0)};
  problem.step = problem.load;
  return problem;
}

void expect_bound(const ShareProblem& problem, double expected) {
  EXPECT_LE(share_bound(problem, 0), expected);
  EXPECT_GE(share_bound(problem, 0), expected * (1 - 1e-4));
}

TEST(ShareBound, IsTheMeanLoadWhereNothingIsHeavy) {
  expect_bound(problem_of({{10, 20, 30, 40, 60}}, 2), 80);
}

TEST(ShareBound, CountsWhatMergingCosts) {
  // 100 runs on two of four replicas for 60 each, or on four for 40 each; 20 others take 4 each.
  // On one replica the step is 100. On two, 120 + 80 are 50 for each of four, but that step is 60.
  // On four, 160 + 80 are 60 for each.
  std::vector<std::vector<double>> load{{100}, {60}, {40}};
  for (int i = 0; i < 20; ++i)
    for (std::size_t k = 0; k < 3; ++k) load[k].push_back(k == 0 ? 4 : 10);
  expect_bound(problem_of(load, 4), 60);
  // With 60 others on two: 120 + 240 are 90 for each.
  for (int i = 0; i < 40; ++i)
    for (std::size_t k = 0; k < 3; ++k) load[k].push_back(k == 0 ? 4 : 10);
  expect_bound(problem_of(load, 4), 90);
}

TEST(ShareBound, CountsTheSlicesThatAShortStepTakes) {
  // Two replicas: 60 and 20. The step is 60, where the 60 takes 10 more in steps below 65, and 30
  // more in steps below 62: 65 is what it gets with a load of 60, 70 with one of 70.
  ShareProblem problem = problem_of({{60, 20}}, 2);
  problem.cut = {{{{65, 70}, {62, 90}}, {}}};
  expect_bound(problem, 65);
  // With 30 and 70 besides, 180 are 90 for each of the two, and nothing is cut.
  problem = problem_of({{60, 20, 30, 70}}, 2);
  problem.cut = {{{{65, 70}}, {}, {}, {}}};
  expect_bound(problem, 90);
  // If the 60 takes 10 more below 92: 190 are 95 for each, and a step of 92 is shorter.
  problem.cut = {{{{92, 70}}, {}, {}, {}}};
  expect_bound(problem, 92);
}

TEST(ShareBound, LetsTwoItemsOfMoreThanHalfAReplicaNotShareOne) {
  // Three of 60 on two replicas: two of them share one.
  expect_bound(problem_of({{60, 60, 60}}, 2), 120);
  // If they may be merged, 30 on each of both: 90.
  expect_bound(problem_of({{60, 60, 60}, {30, 30, 30}}, 2), 90);
}

TEST(ShareBound, AddsWhatIsAround) {
  ShareProblem problem = problem_of({{10, 10}}, 2);
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
