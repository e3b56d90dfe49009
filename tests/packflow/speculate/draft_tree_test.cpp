// DraftTree against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/speculate/draft_tree.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

/// Probabilities of few values, so that many rows are equally likely; some are 1.
DraftTree random_tree(Rng& rng, std::size_t rows) {
  DraftTree tree(100);
  while (tree.size() < rows) {
    const auto parent = static_cast<std::int32_t>(rng.below(tree.size()));
    const double p = std::ldexp(1.0, -static_cast<int>(rng.below(3)));
    const std::int32_t row = tree.add(parent, static_cast<std::int64_t>(tree.size()), std::log(p));
    tree.entropy[static_cast<std::size_t>(row)] = rng.uniform();
  }
  return tree;
}

TEST(DraftTree, RowsKnowTheirDepthAndTheProbabilityOfTheirPath) {
  DraftTree tree(5);
  const std::int32_t a = tree.add(0, 6, std::log(0.5));
  const std::int32_t b = tree.add(a, 7, std::log(0.25));
  EXPECT_EQ(b, 2);
  EXPECT_EQ(tree.depths, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(tree.parents, (std::vector<std::int32_t>{-1, 0, 1}));
  EXPECT_NEAR(tree.log_probability[2], std::log(0.125), 1e-15);
}

TEST(DraftTree, AJoinedRowHasTheSecondDraftsProbabilityAndSoHaveAllRowsAfterIt) {
  DraftTree tree(5);
  const std::int32_t a = tree.add(0, 6, std::log(0.5), Guesser::kNgrams);
  const std::int32_t b = tree.add(a, 7, std::log(0.25), Guesser::kNgrams);
  const std::int32_t other = tree.add(0, 8, std::log(0.1));
  tree.add(b, 9, std::log(0.5), Guesser::kNgrams);
  tree.join(a, std::log(0.8));
  EXPECT_EQ(tree.guessers, (std::vector{Guesser::kHead, Guesser::kBoth, Guesser::kNgrams,
                                        Guesser::kHead, Guesser::kNgrams}));
  EXPECT_NEAR(tree.log_probability[static_cast<std::size_t>(a)], std::log(0.8), 1e-15);
  EXPECT_NEAR(tree.log_probability[static_cast<std::size_t>(b)], std::log(0.8 * 0.25), 1e-15);
  EXPECT_NEAR(tree.log_probability[static_cast<std::size_t>(other)], std::log(0.1), 1e-15);
  EXPECT_NEAR(tree.log_probability[4], std::log(0.8 * 0.25 * 0.5), 1e-15);
  EXPECT_EQ(tree.likeliest(3).guessers,
            (std::vector{Guesser::kHead, Guesser::kBoth, Guesser::kNgrams}));
}

TEST(DraftTree, TheBestRowsAreThoseOfHighestWorth) {
  DraftTree tree(5);
  tree.add(0, 6, std::log(0.9));
  tree.add(0, 7, std::log(0.1));
  tree.add(2, 8, std::log(0.1));
  EXPECT_EQ(tree.best(std::vector<double>{1, 0.2, 0.7, 0.6}, 3).tokens,
            (std::vector<std::int64_t>{5, 7, 8}));
}

/// Takes the likeliest row that is left, the first of equals, again and again.
std::set<std::size_t> taken_one_by_one(const DraftTree& tree, std::size_t count) {
  std::set<std::size_t> taken;
  while (taken.size() < std::min(count, tree.size())) {
    std::size_t best = tree.size();
    for (std::size_t row = 0; row < tree.size(); ++row)
      if (!taken.contains(row) &&
          (best == tree.size() || tree.log_probability[row] > tree.log_probability[best]))
        best = row;
    taken.insert(best);
  }
  return taken;
}

TEST(DraftTree, TheLikeliestRowsAreATreeOfTheRowsThatOneTakesOneByOne) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const DraftTree tree = random_tree(rng, 1 + rng.below(40));
    const std::size_t count = 1 + rng.below(45);
    const DraftTree few = tree.likeliest(static_cast<std::int64_t>(count));
    const std::set<std::size_t> taken = taken_one_by_one(tree, count);
    ASSERT_EQ(few.size(), taken.size());
    std::size_t at = 0;
    for (const std::size_t row : taken) {  // tokens number the rows, except row 0
      if (at > 0) {
        EXPECT_EQ(few.tokens[at], static_cast<std::int64_t>(row));
        const auto parent = static_cast<std::size_t>(few.parents[at]);
        ASSERT_LT(parent, at);
        EXPECT_EQ(few.tokens[parent], tree.tokens[static_cast<std::size_t>(tree.parents[row])]);
      }
      EXPECT_EQ(few.depths[at], tree.depths[row]);
      EXPECT_NEAR(few.log_probability[at], tree.log_probability[row], 1e-12);
      EXPECT_EQ(few.entropy[at], tree.entropy[row]);
      ++at;
    }
  }
}

TEST(DraftTree, ThereIsAlwaysRowZero) {
  EXPECT_EQ(DraftTree(3).likeliest(0).tokens, std::vector<std::int64_t>{3});
}

TEST(DraftTree, WhatIsNoNumberIsLeastLikely) {
  DraftTree tree(3);
  const std::int32_t odd = tree.add(0, 1, std::nan(""));
  tree.add(odd, 2, std::log(0.9));
  tree.add(0, 4, std::log(0.1));
  EXPECT_EQ(tree.likeliest(2).tokens, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(tree.likeliest(4).tokens, (std::vector<std::int64_t>{3, 1, 2, 4}));
}

TEST(TreeSize, SizesWithoutAGuessAndTooDeepOnesAreRefused) {
  const auto require = [](const TreeSize& size) { return [size] { size.require_sound(); }; };
  expect_invalid_input(require({.depth = 0}), {"draft-depth is 0", "1 or more"});
  expect_invalid_input(require({.depth = 41}), {"draft-depth is 41", "at most 40"});
  expect_invalid_input(require({.rows = 1}), {"draft-rows is 1", "2"});
  expect_invalid_input(require({.width = 0}), {"draft-width is 0", "1 or more"});
  TreeSize().require_sound();
}

}  // namespace
}  // namespace slimpack
