#include "slimpack/packflow/sparse/kept_keys.h"

#include <gtest/gtest.h>

#include "slimpack/packflow/sparse/sampled_rows.h"
#include "tests/packflow/sparse/by_counting.h"

namespace slimpack {
namespace {

TEST(KeptKeys, BlocksAreThoseOfTheSequence) {
  // Queries 200 to 399: the rest of block 1, block 2, and the first 16 of block 3.
  const QueryBlocks queries(Tokens(200), Tokens(200));
  ASSERT_EQ(queries.count(), 3);
  EXPECT_EQ(queries.queries(0), (KeyRun{200, 256}));
  EXPECT_EQ(queries.queries(1), (KeyRun{256, 384}));
  EXPECT_EQ(queries.queries(2), (KeyRun{384, 400}));
  EXPECT_EQ(queries.number(0), 1);
  EXPECT_EQ(queries.start(0), 128);
  EXPECT_EQ(queries.keys(), 400);
  // Query 200 sees 201 keys, and so on up to 400: (201 + 400)·200/2.
  EXPECT_EQ(queries.dense_pairs(), 60100);
}

TEST(KeptKeys, ABlockSeesTheWindowOfItsFirstQueryAndColumnsBeforeIt) {
  const QueryBlocks queries(Tokens(0), Tokens(512));
  const KeptKeys kept = columns_and_window({0, 100, 200, 300}, 64, 0, queries);
  EXPECT_EQ(kept.blocks[0], (BlockKeys{0, {}}));
  EXPECT_EQ(kept.blocks[1], (BlockKeys{1, {{64, 128}}}));   // column 0; 100 is in the window
  EXPECT_EQ(kept.blocks[2], (BlockKeys{2, {{192, 256}}}));  // 200 is in the window
  EXPECT_EQ(kept.blocks[3], (BlockKeys{4, {{320, 384}}}));
  // 4 own blocks of 128·129/2 pairs, and 128 queries with 65, 66 and 68 keys.
  EXPECT_EQ(kept.pairs(queries), 4 * 8256 + 128 * (65 + 66 + 68));
}

TEST(KeptKeys, DenseRowsMakeTheirBlocksSeeEverything) {
  const QueryBlocks queries(Tokens(0), Tokens(512));
  // The last 129 queries are in blocks 2 and 3.
  const KeptKeys kept = columns_and_window({5}, 0, 129, queries);
  EXPECT_EQ(kept.blocks[1], (BlockKeys{1, {}}));
  EXPECT_EQ(kept.blocks[2], (BlockKeys{0, {{0, 256}}}));
  EXPECT_EQ(kept.blocks[3], (BlockKeys{0, {{0, 384}}}));
}

TEST(KeptKeys, ASliceThatBeginsInABlockSeesTheBlocksBeginning) {
  const QueryBlocks queries(Tokens(200), Tokens(100));
  EXPECT_EQ(kept_blocks(empty_mask(queries), queries).blocks[0], (BlockKeys{0, {{128, 200}}}));
  EXPECT_EQ(columns_and_window({}, 0, 0, queries).blocks[0], (BlockKeys{0, {{128, 200}}}));
}

TEST(KeptKeys, NeighbouringBlocksAreOneRun) {
  const QueryBlocks queries(Tokens(0), Tokens(640));
  BlockMask mask = empty_mask(queries);
  add_columns(mask, std::vector<std::int64_t>{0, 1});
  add_distances(mask, std::vector<std::int64_t>{1, 4}, queries);
  const KeptKeys kept = kept_blocks(mask, queries);
  EXPECT_EQ(kept.blocks[1].runs, (std::vector<KeyRun>{{0, 128}}));
  EXPECT_EQ(kept.blocks[2].runs, (std::vector<KeyRun>{{0, 256}}));
  EXPECT_EQ(kept.blocks[3].runs, (std::vector<KeyRun>{{0, 384}}));
  EXPECT_EQ(kept.blocks[4].runs, (std::vector<KeyRun>{{0, 256}, {384, 512}}));
}

TEST(KeptKeys, AJoinedBlockSeesWhatAnyOfItsBlocksDoes) {
  Rng rng(2);
  for (const auto& [prefix, tokens] : {std::pair{0, 1000}, {500, 700}, {640, 300}, {700, 20}}) {
    const QueryBlocks queries{Tokens(prefix), Tokens(tokens)};
    BlockMask mask = empty_mask(queries);
    for (std::vector<std::uint8_t>& row : mask)
      for (std::uint8_t& entry : row) entry = rng.below(3) == 0 ? 1 : 0;
    for (const KeptKeys& kept :
         {kept_blocks(mask, queries), columns_and_window({3, 90, 170, 333, 400}, 150, 0, queries),
          columns_and_window({3, 170, 333}, 0, 130, queries)}) {
      const KeptKeys larger = joined(kept, queries, 256);
      const QueryBlocks pairs = queries.in_blocks_of(256);
      ASSERT_EQ(std::ssize(larger.blocks), pairs.count());
      for (std::int64_t b = 0; b < pairs.count(); ++b) {
        const KeyRun own = pairs.queries(b);
        for (std::int64_t j = 0; j < own.begin; ++j) {
          bool any = false;
          for (std::int64_t i = own.begin; i < own.end; ++i)
            any = any || slimpack::testing::sees(kept, queries, i - prefix, j);
          ASSERT_EQ(slimpack::testing::sees(larger, queries, own.begin - prefix, j), any)
              << own.begin << " " << j;
        }
      }
    }
  }
}

TEST(SampledRows, TheFewestEntriesAreTheLargestUntilTheyReachTheShare) {
  using Entries = std::vector<std::int64_t>;
  const std::vector<double> values{1, 4, 2, 0, 3};  // of 10
  EXPECT_EQ(fewest_that_reach(values, 0.4), (Entries{1}));
  EXPECT_EQ(fewest_that_reach(values, 0.5), (Entries{1, 4}));
  EXPECT_EQ(fewest_that_reach(values, 0.9), (Entries{1, 2, 4}));
  EXPECT_EQ(fewest_that_reach(values, 1), (Entries{0, 1, 2, 3, 4}));
  EXPECT_EQ(fewest_that_sum_to(values, 0), Entries{});
  EXPECT_EQ(fewest_that_sum_to(values, 11), (Entries{0, 1, 2, 3, 4}));
  EXPECT_EQ(largest_entries({2, 1, 2, 2}, 2), (Entries{0, 2}));  // of equal ones the first
  EXPECT_EQ(largest_entries({2, 1}, 5), (Entries{0, 1}));
  EXPECT_EQ(largest_entries({}, 5), Entries{});
}

TEST(SampledRows, HalvingFindsWhatTakingOneByOneFinds) {
  Rng rng(1);
  for (int i = 0; i < 50; ++i) {
    std::vector<double> values(1 + rng.below(500));
    for (double& value : values) value = std::exp(2 * rng.normal());
    const double share = rng.uniform();
    const std::vector<bool> taken =
        slimpack::testing::taken_until(values, share * slimpack::testing::total(values));
    std::vector<std::int64_t> expected;
    for (std::size_t j = 0; j < taken.size(); ++j)
      if (taken[j]) expected.push_back(static_cast<std::int64_t>(j));
    EXPECT_EQ(fewest_that_reach(values, share), expected) << values.size() << " " << share;
  }
}

TEST(SampledRows, DistanceSumsFollowDiagonals) {
  // Rows are queries 2 and 3: query 2 has keys 2, 1, 0 at distances 0, 1, 2.
  const at::Tensor x = at::tensor({1., 2., 3., 0., 10., 20., 30., 40.}, at::kDouble).view({2, 4});
  EXPECT_EQ(as_doubles(distance_sums(x)), (std::vector<double>{43, 32, 21, 10}));
}

}  // namespace
}  // namespace slimpack
