// Verification: greedy paths by hand, drawn ones by their distribution.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "slimpack/packflow/speculate/speculator.h"

namespace slimpack {
namespace {

/// Row 0; after it tokens 1 and 2; after token 1 tokens 0 and 3.
DraftTree small_tree() {
  DraftTree tree(9);
  const std::int32_t one = tree.add(0, 1, std::log(0.6));
  tree.add(0, 2, std::log(0.3));
  tree.add(one, 0, std::log(0.5));
  tree.add(one, 3, std::log(0.4));
  return tree;
}

at::Tensor logits_with_best(const std::vector<std::int64_t>& best) {
  at::Tensor logits = at::zeros({static_cast<std::int64_t>(best.size()), 4}, at::kDouble);
  for (std::size_t row = 0; row < best.size(); ++row)
    logits[static_cast<std::int64_t>(row)][best[row]] = 1.0;
  return logits;
}

struct GreedyCase {
  std::vector<std::int64_t> best;  ///< by row of small_tree
  std::vector<std::int32_t> path;
  std::int64_t next;
};

TEST(Verify, GreedilyFollowsTheLikeliestTokensAsFarAsTheyWereGuessed) {
  for (const GreedyCase& c : std::vector<GreedyCase>{
           {{0, 0, 0, 0, 0}, {0}, 0},        // 0 was not guessed after row 0
           {{2, 0, 3, 0, 0}, {0, 2}, 3},     // token 2 is row 2; nothing was guessed after it
           {{1, 3, 0, 0, 2}, {0, 1, 4}, 2},  // tokens 1 and 3
           {{1, 2, 0, 0, 0}, {0, 1}, 2},     // 2 was guessed, but not after token 1
       }) {
    TokenSampler greedy(SamplingSettings{});
    const Verdict verdict = verify(small_tree(), logits_with_best(c.best), greedy);
    EXPECT_EQ(verdict.path, c.path);
    EXPECT_EQ(verdict.next, c.next);
  }
}

TEST(Verify, DrawnTokensHaveTheModelsDistributionWhateverWasGuessed) {
  // Probabilities of four tokens by row, not those of the draft.
  const std::array<std::array<double, 4>, 5> p{{{0.1, 0.4, 0.2, 0.3},
                                                {0.25, 0.25, 0.1, 0.4},
                                                {0.7, 0.1, 0.1, 0.1},
                                                {0.25, 0.25, 0.25, 0.25},
                                                {0.05, 0.05, 0.6, 0.3}}};
  at::Tensor logits = at::empty({5, 4}, at::kDouble);
  for (int row = 0; row < 5; ++row)
    for (int token = 0; token < 4; ++token)
      logits[row][token] =
          std::log(p[static_cast<std::size_t>(row)][static_cast<std::size_t>(token)]);
  const DraftTree tree = small_tree();
  TokenSampler sampler({.temperature = 1, .seed = 11});
  constexpr int kDraws = 40000;
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    const Verdict verdict = verify(tree, logits, sampler);
    std::vector<std::int64_t> tokens;
    for (const std::int32_t row : verdict.path)
      if (row > 0) tokens.push_back(tree.tokens[static_cast<std::size_t>(row)]);
    tokens.push_back(verdict.next);
    ++counts[tokens];
  }
  // The answers: 0 and 3 alone; 2 and any token; 1, then 1 or 2; 1 and 0, then any token; 1 and 3,
  // then any token. Each has the product of the model's probabilities.
  std::map<std::vector<std::int64_t>, double> expected{
      {{0}, p[0][0]}, {{3}, p[0][3]}, {{1, 1}, p[0][1] * p[1][1]}, {{1, 2}, p[0][1] * p[1][2]}};
  for (std::int64_t t = 0; t < 4; ++t) {
    const auto token = static_cast<std::size_t>(t);
    expected[{2, t}] = p[0][2] * p[2][token];
    expected[{1, 0, t}] = p[0][1] * p[1][0] * p[3][token];
    expected[{1, 3, t}] = p[0][1] * p[1][3] * p[4][token];
  }
  ASSERT_EQ(counts.size(), expected.size());
  double chi_squared = 0;
  for (const auto& [tokens, probability] : expected) {
    const double mean = kDraws * probability;
    chi_squared += (counts[tokens] - mean) * (counts[tokens] - mean) / mean;
  }
  // 16 answers: 15 degrees of freedom, of which 37.7 is passed once in a thousand draws.
  EXPECT_LT(chi_squared, 37.7);
}

}  // namespace
}  // namespace slimpack
