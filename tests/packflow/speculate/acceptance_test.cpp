// Acceptance: what it learns from trees made by hand, and that it finds a known calibration.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/packflow/speculate/acceptance.h"

namespace slimpack {
namespace {

/// Row 0, after it rows 1 (0.6) and 2 (0.3); after row 1 row 3 (0.6).
DraftTree small_tree() {
  DraftTree tree(0);
  tree.add(0, 1, std::log(0.6));
  tree.add(0, 2, std::log(0.3));
  tree.add(1, 3, std::log(0.6));
  return tree;
}

/// The probability of a guess at a depth whose draft's probability is p, by `acceptance`.
double rated(const Acceptance& acceptance, double p, std::int64_t depth,
             Guesser guesser = Guesser::kHead) {
  DraftTree tree(0);
  std::int32_t row = 0;
  for (std::int64_t d = 1; d < depth; ++d) row = tree.add(row, 1, std::log(0.5));
  row = tree.add(row, 1, std::log(p), guesser);
  return acceptance.of(tree, static_cast<std::size_t>(row));
}

TEST(Acceptance, IsTheDraftsOwnProbabilityAtFirst) {
  const Acceptance acceptance;
  for (const double p : {1e-6, 0.02, 0.4, 0.999, 1.0})
    EXPECT_NEAR(rated(acceptance, p, 3), p, 1e-12);
}

TEST(Acceptance, CountsGuessesAfterRightRowsOnly) {
  Acceptance acceptance;
  acceptance.learn(small_tree(), std::vector<std::int32_t>{0});
  // For rows 1 and 2, 0.6 and 0.3 were expected, and none was right; row 3 says nothing. The factor
  // of the bin at all depths is 2/(2 + 0.6), that at depth 1 has it as its prior.
  const double all = 2 / 2.6;
  EXPECT_NEAR(rated(acceptance, 0.6, 1), 0.6 * 2 * all / 2.6, 1e-12);
  EXPECT_NEAR(rated(acceptance, 0.6, 2), 0.6 * all, 1e-12);
  EXPECT_NEAR(rated(acceptance, 0.3, 1), 0.3 * (2 / 2.3) * 2 / 2.3, 1e-12);
  EXPECT_NEAR(rated(acceptance, 0.85, 1), 0.85, 1e-12);
}

TEST(Acceptance, CountsRightGuesses) {
  Acceptance acceptance;
  acceptance.learn(small_tree(), std::vector<std::int32_t>{0, 1, 3});
  // The bin of 0.6: 1.2 expected, 2 right; at depth 2 0.6 expected, 1 right.
  const double all = (2 + 2.0) / (1.2 + 2);
  EXPECT_NEAR(rated(acceptance, 0.6, 2), 0.6 * (1 + 2 * all) / (0.6 + 2), 1e-12);
  EXPECT_DOUBLE_EQ(rated(acceptance, 0.64, 1), std::min(1.0, 0.64 * (1 + 2 * all) / (0.6 + 2)));
}

TEST(Acceptance, IsApartByWhoGuesses) {
  Acceptance acceptance;
  DraftTree tree(0);
  tree.add(0, 1, std::log(0.6), Guesser::kNgrams);
  acceptance.learn(tree, std::vector<std::int32_t>{0, 1});
  // For n-grams 0.6 were expected and 1 was right, at this depth and at all of them.
  const double all = (1 + 2.0) / (0.6 + 2);
  EXPECT_NEAR(rated(acceptance, 0.6, 1, Guesser::kNgrams), 0.6 * (1 + 2 * all) / (0.6 + 2), 1e-12);
  EXPECT_NEAR(rated(acceptance, 0.6, 1, Guesser::kHead), 0.6, 1e-12);
  EXPECT_NEAR(rated(acceptance, 0.6, 1, Guesser::kBoth), 0.6, 1e-12);
}

TEST(Acceptance, WhatIsNoNumberIsNeverRight) {
  EXPECT_EQ(rated(Acceptance(), std::nan(""), 1), 0);
}

TEST(Acceptance, FindsHowFarADraftIsOffAndNeverExceedsOne) {
  Rng rng(5);
  Acceptance acceptance;
  for (int i = 0; i < 3000; ++i) {
    DraftTree tree(0);
    tree.add(0, 1, std::log(0.4));
    tree.add(0, 2, std::log(0.15));
    // Right with probabilities 0.7 and 0.05.
    const double at = rng.uniform();
    acceptance.learn(tree, at < 0.7    ? std::vector<std::int32_t>{0, 1}
                           : at < 0.75 ? std::vector<std::int32_t>{0, 2}
                                       : std::vector<std::int32_t>{0});
  }
  // About 500 passes count: standard errors 0.02 and 0.01.
  EXPECT_NEAR(rated(acceptance, 0.4, 1), 0.7, 0.08);
  EXPECT_NEAR(rated(acceptance, 0.15, 1), 0.05, 0.04);
  EXPECT_LE(rated(acceptance, 0.499, 1), 1.0);
}

}  // namespace
}  // namespace slimpack
