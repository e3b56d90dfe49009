#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slimpack/base/random.h"
#include "slimpack/baselines/makers.h"
#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::job_of;
using testing::made_by;

double pipeline_time(const SplitProblem& problem, const std::vector<std::size_t>& ends) {
  double sum = 0;
  double largest = 0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    double pack = problem.pack_overhead;
    for (std::size_t i = begin; i < end; ++i) pack += static_cast<double>(problem.costs[i]);
    sum += pack;
    largest = std::max(largest, pack);
    begin = end;
  }
  return sum / problem.replicas + (problem.stages - 1) * largest;
}

TEST(ConsecutiveSplit, WeighsTheLargestPackAgainstTheOverheadOfMorePacks) {
  const std::vector<std::int64_t> costs{10, 10, 10, 10};
  const std::vector<Tokens> lengths(4, Tokens(1));
  // 3 stages, overhead 1: four packs take 44 + 2·11 = 66, two 42 + 2·21 = 84, one 41 + 2·41 = 123.
  EXPECT_EQ(consecutive_split({costs, lengths, Tokens(9), 1, 3, 1}),
            (std::vector<std::size_t>{1, 2, 3, 4}));
  // Overhead 20: four packs take 120 + 2·30 = 180, two 80 + 2·40 = 160, one 60 + 2·60 = 180.
  EXPECT_EQ(consecutive_split({costs, lengths, Tokens(9), 20, 3, 1}),
            (std::vector<std::size_t>{2, 4}));
  // One stage: a single pack has the least overhead.
  EXPECT_EQ(consecutive_split({costs, lengths, Tokens(9), 1, 1, 1}), (std::vector<std::size_t>{4}));
}

TEST(ConsecutiveSplit, FillsNoPackAboveTheCapacity) {
  const std::vector<std::int64_t> costs{5, 4, 3, 2};
  const std::vector<Tokens> lengths{Tokens(5), Tokens(4), Tokens(3), Tokens(2)};
  // One stage wants one pack; at most 8 tokens fit, so three are the least. Two splits have three:
  // 5 | 4 | 3 2 has a smaller largest pack than 5 | 4 3 | 2.
  EXPECT_EQ(consecutive_split({costs, lengths, Tokens(8), 10, 1, 1}),
            (std::vector<std::size_t>{1, 2, 4}));
}

TEST(ConsecutiveSplit, HoldsItemsThatCostNothing) {
  const std::vector<std::int64_t> free(3, 0);
  const std::vector<Tokens> lengths(3, Tokens(4));
  // Eight tokens fit: two items, then one.
  EXPECT_EQ(consecutive_split({free, lengths, Tokens(8), 0, 2, 1}),
            (std::vector<std::size_t>{2, 3}));
}

RC_GTEST_PROP(ConsecutiveSplit, IsTheBestOfAllSplits, ()) {
  // Costs below 1,000 in sum: no two largest packs are closer than 0.1%.
  const auto costs = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange<std::size_t>(1, 11), rc::gen::inRange<std::int64_t>(0, 90));
  std::vector<Tokens> lengths;
  for (std::size_t i = 0; i < costs.size(); ++i)
    lengths.emplace_back(*rc::gen::inRange<std::int64_t>(1, 10));
  const SplitProblem problem{costs,
                             lengths,
                             Tokens(*rc::gen::inRange<std::int64_t>(9, 40)),
                             static_cast<double>(*rc::gen::inRange(0, 60)),
                             *rc::gen::inRange(1, 6),
                             *rc::gen::inRange(1, 4)};
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t mask = 0; mask < std::size_t{1} << (costs.size() - 1); ++mask) {
    std::vector<std::size_t> ends;
    bool fits = true;
    Tokens pack;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      pack += lengths[i];
      fits &= pack <= problem.capacity;
      if (i + 1 < costs.size() && (mask >> i & 1) == 0) continue;
      ends.push_back(i + 1);
      pack = Tokens(0);
    }
    if (fits) best = std::min(best, pipeline_time(problem, ends));
  }
  RC_ASSERT(std::abs(pipeline_time(problem, consecutive_split(problem)) - best) <= 1e-9 * best);
}

TEST(DynaPipeBaseline, PutsNeighboursInLengthTogetherAndBalancesReplicas) {
  Rng rng(1);
  SequenceLengths lengths;
  for (int i = 0; i < 400; ++i) lengths.emplace_back(1 + static_cast<std::int64_t>(rng.below(500)));
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(4);
  const BaselinePlan made = made_by("dynapipe", job_of(layout, 2, Tokens(4000)), lengths, cost);
  EXPECT_EQ(made.discipline, Discipline::kCyclic);
  std::vector<std::pair<Tokens, Tokens>> ranges;  // shortest and longest of each pack
  for (const ReplicaPlan& replica : made.plan.replicas)
    for (const MicroPack& pack : replica.packs.forward) {
      EXPECT_LE(pack.tokens(), Tokens(4000));
      const auto [low, high] = std::minmax_element(
          pack.slices.begin(), pack.slices.end(),
          [](const Slice& a, const Slice& b) { return a.length() < b.length(); });
      ranges.emplace_back(low->length(), high->length());
    }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    EXPECT_LE(ranges[i - 1].second, ranges[i].first) << "packs overlap in length";
}

TEST(PackOrders, BeginWithTheGivenOneAndMoveClustersAsAWhole) {
  // Two cheap, two dear and one in between: with four clusters of five packs, packs of a cluster
  // stay together and in the given order.
  const std::vector<std::int64_t> costs{100, 101, 1, 2, 50};
  const auto orders = pack_orders(costs);
  EXPECT_EQ(orders.front(), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<std::size_t>{2, 3, 0, 1, 4}),
            orders.end());
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<std::size_t>{4, 2, 3, 0, 1}),
            orders.end());
  EXPECT_EQ(pack_orders({}).size(), 1u);
  EXPECT_EQ(pack_orders(std::vector<std::int64_t>{7}).size(), 1u);
}

RC_GTEST_PROP(PackOrders, AreDistinctOrdersOfAllPacks, ()) {
  const auto costs = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::int64_t>(0, 100));
  auto orders = pack_orders(costs);
  RC_ASSERT(orders.size() <= (costs.size() > 20 ? 7u : 25u));
  std::vector<std::size_t> all(costs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  RC_ASSERT(orders.front() == all);
  for (const auto& order : orders)
    RC_ASSERT(std::is_permutation(order.begin(), order.end(), all.begin(), all.end()));
  std::sort(orders.begin(), orders.end());
  RC_ASSERT(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
}

}  // namespace
}  // namespace slimpack
