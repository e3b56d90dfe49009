#include "slimpack/packflow/sparse/block_attention.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>

#include "tests/packflow/sparse/by_counting.h"

namespace slimpack {
namespace {

using slimpack::testing::masked_attention;
using slimpack::testing::Outputs;
using slimpack::testing::random_slice;
using slimpack::testing::relative_error;
using slimpack::testing::sees;
using slimpack::testing::Slice;

/// Softmax weights sum to 1, so every value is a sum of terms of order 1.
constexpr double kBound = 1e-12;

std::int64_t below(Rng& rng, std::int64_t bound) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bound)));
}

KeptKeys random_columns(Rng& rng, const QueryBlocks& queries) {
  std::vector<std::int64_t> columns;
  for (std::int64_t j = 0; j < queries.keys(); ++j)
    if (rng.uniform() < 0.1) columns.push_back(j);
  return columns_and_window(columns, below(rng, queries.keys() + 1), below(rng, 200), queries);
}

KeptKeys random_blocks(Rng& rng, const QueryBlocks& queries) {
  BlockMask mask = empty_mask(queries);
  const double density = rng.uniform();
  for (std::vector<std::uint8_t>& row : mask)
    for (std::uint8_t& entry : row) entry = rng.uniform() < density ? 1 : 0;
  return kept_blocks(mask, queries);
}

Outputs expected(const Slice& s, const std::vector<std::optional<KeptKeys>>& kept) {
  const QueryBlocks queries = s.blocks();
  return masked_attention(s, [&](std::int64_t n, std::int64_t t, std::int64_t j) {
    const auto& own = kept[static_cast<std::size_t>(n)];
    return !own || sees(*own, queries, t, j);
  });
}

double worst_error(const AttentionResult& actual, const Outputs& expected) {
  return std::max(relative_error(actual.out_TND, expected.out),
                  (actual.lse_TN - expected.lse).abs().max().item<double>());
}

RC_GTEST_PROP(BlockAttention, IsAttentionUnderTheMaskOfTheKeptKeys, (std::uint64_t seed)) {
  Rng rng(seed);
  const std::int64_t kv_heads = 1 + below(rng, 2);
  const Slice s = random_slice(rng, below(rng, 400), 1 + below(rng, 300), kv_heads,
                               1 + below(rng, 2), 2 * (1 + below(rng, 4)));
  const QueryBlocks queries = s.blocks();
  std::vector<std::optional<KeptKeys>> kept;
  for (std::int64_t n = 0; n < s.q.size(1); ++n) {
    const auto kind = rng.below(3);  // a third of the heads are dense
    kept.push_back(kind == 0   ? std::nullopt
                   : kind == 1 ? std::optional(random_columns(rng, queries))
                               : std::optional(random_blocks(rng, queries)));
    if (kept.back() && rng.below(2) == 0)
      kept.back() = joined(*kept.back(), queries, rng.below(2) == 0 ? 256 : 384);
  }
  const AttentionResult actual = block_attention(s.q, heads_end_to_end({s.k, s.v}), queries, kept);
  RC_ASSERT(worst_error(actual, expected(s, kept)) < kBound);
}

TEST(BlockAttention, HeadsEndToEndAreNotCopied) {
  Rng rng(1);
  const Slice s = random_slice(rng, 3, 5, 2, 1, 4);
  const KeysValues apart{s.k, s.v};
  const KeysValues moved = heads_end_to_end(apart);
  EXPECT_TRUE(moved.k.equal(s.k));
  EXPECT_EQ(moved.k.stride(0), 4);
  EXPECT_EQ(heads_end_to_end(moved).k.data_ptr(), moved.k.data_ptr());
  EXPECT_EQ(heads_end_to_end(moved).v.data_ptr(), moved.v.data_ptr());
}

TEST(BlockAttention, CallsAreTheLongestRunAndAPackOfTheOthers) {
  EXPECT_EQ(calls_of({}).calls, 0);
  EXPECT_EQ(calls_of({0, {{0, 128}}}).calls, 1);
  EXPECT_EQ(calls_of({0, {{0, 128}}}).packed_keys, 0);
  // 256 of the keys are read in place, 128 + 100 are packed.
  const BlockCalls three = calls_of({0, {{0, 128}, {256, 512}, {600, 700}}});
  EXPECT_EQ(three.calls, 2);
  EXPECT_EQ(three.packed_keys, 228);
  // Columns are packed once for the head, not for a block.
  const BlockCalls columns = calls_of({40, {{256, 512}}});
  EXPECT_EQ(columns.calls, 2);
  EXPECT_EQ(columns.packed_keys, 0);
}

TEST(BlockAttention, ShorterTypesAgreeWithinTheirPrecision) {
  Rng rng(2);
  const Slice s = random_slice(rng, 500, 300, 2, 2, 16);
  const QueryBlocks queries = s.blocks();
  std::vector<std::optional<KeptKeys>> kept;
  for (int n = 0; n < 4; ++n)
    kept.emplace_back(n % 2 == 0 ? random_columns(rng, queries) : random_blocks(rng, queries));
  // fp32 has 24 bits, bf16 8; inputs, weights and three merged results are rounded a few times.
  for (const auto& [type, bound] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 5e-2}}) {
    Slice rounded = s;
    for (at::Tensor* x : {&rounded.q, &rounded.k, &rounded.v}) *x = x->to(type).to(at::kDouble);
    const AttentionResult actual = block_attention(
        s.q.to(type), heads_end_to_end({s.k.to(type), s.v.to(type)}), queries, kept);
    EXPECT_EQ(actual.out_TND.scalar_type(), type);
    EXPECT_EQ(actual.lse_TN.scalar_type(), at::kFloat);
    EXPECT_LT(relative_error(actual.out_TND, expected(rounded, kept).out), bound);
  }
}

}  // namespace
}  // namespace slimpack
