// HeteroSpec's tree and the recorder of its bins, on trees made by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "slimpack/packflow/speculate/hetero_spec.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

/// Two paths of `depth` levels: row 2k + 1 of the path whose guesses have probability 0.6, row
/// 2k + 2 of that with 0.3. The first one's rows have that entropy, the second one's 100.
DraftTree two_paths(std::int32_t depth, double entropy) {
  DraftTree tree(0);
  tree.entropy[0] = entropy;
  for (std::int32_t level = 0; level < depth; ++level) {
    const std::int32_t good = tree.add(level == 0 ? 0 : 2 * level - 1, 1, std::log(0.6));
    const std::int32_t poor = tree.add(level == 0 ? 0 : 2 * level, 2, std::log(0.3));
    if (level + 1 == depth) continue;  // nothing was guessed after these
    tree.entropy[static_cast<std::size_t>(good)] = entropy;
    tree.entropy[static_cast<std::size_t>(poor)] = 100;
  }
  return tree;
}

/// A hundred rows more, each of them unlikely.
DraftTree padded(DraftTree tree) {
  for (int i = 0; i < 100; ++i) tree.add(0, 3 + i, -20);
  return tree;
}

/// Asks a rule as drafts do.
TreeSize asked(TreeRule& rule, double entropy) {
  std::int32_t depth = 0;
  while (rule.deeper(two_paths(depth, entropy), depth)) ++depth;
  return {
      .depth = depth,
      .rows = static_cast<std::int64_t>(rule.verified(padded(two_paths(depth, entropy))).size()),
      .width = rule.width()};
}

TEST(HeteroSpec, CertainTreesAreDeeperAndNarrower) {
  // Depth 5: α = 3. H is five times the entropy of a row.
  HeteroSpecTree rule({.base = {5, 60, 10}, .thresholds = {1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(asked(rule, 0.1), (TreeSize{8, 21, 10}));   // bin 0: 5 + 3, 0.3 · 60 + 3
  EXPECT_EQ(asked(rule, 0.3), (TreeSize{7, 38, 10}));   // bin 1: 5 + 2, 0.6 · 60 + 2
  EXPECT_EQ(asked(rule, 0.5), (TreeSize{6, 61, 10}));   // bin 2: 5 + 1, 60 + 1
  EXPECT_EQ(asked(rule, 0.7), (TreeSize{5, 60, 10}));   // bin 3
  EXPECT_EQ(asked(rule, 10.0), (TreeSize{5, 60, 10}));  // bin 7
  EXPECT_EQ(asked(rule, 0.1), (TreeSize{8, 21, 10}));   // again
}

TEST(HeteroSpec, NeverGoesLessDeepThanItsBaseOrBelowTwoRows) {
  // Depth 1: α = 1, and bin 2 would make it −1.
  HeteroSpecTree rule({.base = {1, 2, 4}, .thresholds = {1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(asked(rule, 0.5), (TreeSize{2, 2, 4}));  // bin 0: 1 + 1, 0.3 · 2 + 1 = 1.6, rounded
  EXPECT_EQ(asked(rule, 2.5), (TreeSize{1, 2, 4}));
}

TEST(HeteroSpec, TreesThatEndEarlyAreBaseTrees) {
  HeteroSpecTree rule({.base = {5, 60, 10}, .thresholds = {1, 2, 3, 4, 5, 6, 7}});
  for (std::int32_t depth = 0; depth < 3; ++depth)
    EXPECT_TRUE(rule.deeper(two_paths(depth, 0), depth));
  EXPECT_EQ(rule.verified(padded(two_paths(2, 0))).size(), 60U);
}

TEST(HeteroSpec, UnsoundBasesAreRefused) {
  expect_invalid_input([] { HeteroSpecTree({.base = {.depth = 0}, .thresholds = {}}); },
                       {"draft-depth is 0"});
  std::vector<EntropyRecord> records;
  expect_invalid_input([&] { EntropyRecorder({.rows = 1}, records); }, {"draft-rows is 1"});
}

TEST(EntropyRecorder, KeepsBestPathsThatWereRightToTheirEnd) {
  std::vector<EntropyRecord> records;
  EntropyRecorder rule({.depth = 3, .rows = 20, .width = 4}, records);
  EXPECT_EQ(asked(rule, 1), (TreeSize{3, 20, 4}));
  const DraftTree tree = two_paths(3, 0.5);
  rule.learn(tree, std::vector<std::int32_t>{0, 1, 3});     // right, but not to the end
  rule.learn(tree, std::vector<std::int32_t>{0, 2, 4, 6});  // to the end, not the best path
  rule.learn(two_paths(2, 0.5), std::vector<std::int32_t>{0, 1, 3});  // pruned before level 3
  EXPECT_TRUE(records.empty());
  rule.learn(tree, std::vector<std::int32_t>{0, 1, 3, 5});
  ASSERT_EQ(records.size(), 1U);
  // Three rows of entropy 0.5 lead to it: row 0 and two of the path.
  EXPECT_NEAR(records[0].entropy, 1.5, 1e-15);
  // 0.6³ = 0.216 stands after row 0 (1), 0.6, 0.36 and 0.3.
  EXPECT_EQ(records[0].rank, 5);
}

}  // namespace
}  // namespace slimpack
