#include "slimpack/baselines/karmarkar_karp.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

namespace slimpack {
namespace {

using Parts = std::vector<std::vector<std::size_t>>;

std::int64_t heaviest(const std::vector<std::int64_t>& values, const Parts& parts) {
  std::int64_t most = 0;
  for (const auto& part : parts) {
    std::int64_t sum = 0;
    for (const std::size_t i : part) sum += values[i];
    most = std::max(most, sum);
  }
  return most;
}

/// The method word by word, with empty parts listed: of all partitions the two with the widest
/// spread are joined; of equals, those with the heaviest part, then those with the lowest index.
Parts by_definition(const std::vector<std::int64_t>& values, std::size_t parts) {
  const auto sum = [&](const std::vector<std::size_t>& part) {
    return std::accumulate(part.begin(), part.end(), std::int64_t{0},
                           [&](std::int64_t s, std::size_t i) { return s + values[i]; });
  };
  const auto first = [&](const std::vector<std::size_t>& part) {
    return part.empty() ? values.size() : *std::ranges::min_element(part);
  };
  const auto heavier = [&](const auto& a, const auto& b) {
    return std::pair(-sum(a), first(a)) < std::pair(-sum(b), first(b));
  };
  std::vector<Parts> left;
  for (std::size_t i = 0; i < values.size(); ++i) {
    left.emplace_back(parts);
    left.back().front() = {i};
  }
  while (left.size() > 1) {
    std::ranges::sort(left, {}, [&](const Parts& p) {
      return std::tuple(sum(p.back()) - sum(p.front()), -sum(p.front()), first(p.front()));
    });
    for (std::size_t i = 0; i < parts; ++i) {
      const auto& more = left[1][parts - 1 - i];
      left[0][i].insert(left[0][i].end(), more.begin(), more.end());
    }
    std::ranges::sort(left[0], heavier);
    left.erase(left.begin() + 1);
  }
  if (left.empty()) return Parts(parts);
  for (auto& part : left[0]) std::ranges::sort(part);
  return left[0];
}

RC_GTEST_PROP(KarmarkarKarp, JoinsAsItsDefinitionSays, ()) {
  const auto most = *rc::gen::element<std::int64_t>(3, 1000);
  const auto values =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, most));
  const auto parts = *rc::gen::inRange<std::size_t>(1, 12);
  RC_ASSERT(karmarkar_karp(values, parts) == by_definition(values, parts));
}

TEST(KarmarkarKarp, BeatsGreedyOnTheTextbookExample) {
  // 8 7 6 5 4 in two parts. Differences: 8 − 7 = 1, 6 − 5 = 1, 4 − 1 = 3, 3 − 1 = 2: sums 16 and
  // 14, where longest first into the lighter part gives 8 + 5 + 4 = 17 and 7 + 6 = 13.
  const std::vector<std::int64_t> values{8, 7, 6, 5, 4};
  EXPECT_EQ(heaviest(values, karmarkar_karp(values, 2)), 16);
}

TEST(KarmarkarKarp, JoinsTheHeaviestPartWithTheLightestInThreeWays) {
  // Korf's example of three parts: 4 5 6 7 8. Spreads 8 7 6 5 4: (8,0,0)+(7,0,0) = (8,7,0), spread
  // 8; with (6,0,0) = (8,7,6), spread 2; (5,0,0)+(4,0,0) = (5,4,0), spread 5; together
  // (8 + 0, 7 + 4, 6 + 5) = 8 11 11.
  const std::vector<std::int64_t> values{4, 5, 6, 7, 8};
  EXPECT_EQ(karmarkar_karp(values, 3), (Parts{{0, 3}, {1, 2}, {4}}));
}

TEST(KarmarkarKarp, OfNothingHasEmptyPartsOnly) {
  EXPECT_EQ(karmarkar_karp({}, 3), Parts(3));
}

TEST(KarmarkarKarp, OfFewerValuesThanPartsGivesEachItsOwn) {
  const std::vector<std::int64_t> values{1, 5};
  EXPECT_EQ(karmarkar_karp(values, 4), (Parts{{1}, {0}, {}, {}}));
}

RC_GTEST_PROP(KarmarkarKarp, PutsEveryValueIntoOnePartAndLeavesNoneEmpty, ()) {
  const auto values =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 100));
  const auto parts = *rc::gen::inRange<std::size_t>(1, 12);
  const Parts result = karmarkar_karp(values, parts);
  RC_ASSERT(result.size() == parts);
  std::vector<int> seen(values.size(), 0);
  std::size_t filled = 0;
  for (const auto& part : result) {
    filled += part.empty() ? 0 : 1;
    RC_ASSERT(std::is_sorted(part.begin(), part.end()));
    for (const std::size_t i : part) ++seen[i];
  }
  RC_ASSERT(filled == std::min(parts, values.size()));
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

RC_GTEST_PROP(KarmarkarKarp, IsWithinItsBoundOfTheOptimum, ()) {
  // Michiels, Korst and Aarts 2003: at most 4/3 − 1/(3m) times the optimum of m parts.
  const auto values = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange<std::size_t>(1, 8), rc::gen::inRange<std::int64_t>(1, 50));
  const auto parts = *rc::gen::inRange<std::size_t>(2, 4);
  std::vector<std::int64_t> sums(parts, 0);
  std::int64_t best = std::accumulate(values.begin(), values.end(), std::int64_t{0});
  const std::function<void(std::size_t)> search = [&](std::size_t i) {
    if (i == values.size()) {
      best = std::min(best, *std::max_element(sums.begin(), sums.end()));
      return;
    }
    for (std::int64_t& sum : sums) {
      sum += values[i];
      search(i + 1);
      sum -= values[i];
    }
  };
  search(0);
  const double bound = 4.0 / 3 - 1.0 / (3.0 * static_cast<double>(parts));
  RC_ASSERT(static_cast<double>(heaviest(values, karmarkar_karp(values, parts))) <=
            bound * static_cast<double>(best) + 1e-9);
}

}  // namespace
}  // namespace slimpack
