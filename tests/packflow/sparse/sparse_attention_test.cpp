#include "slimpack/packflow/sparse/sparse_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>

#include "slimpack/base/error.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/sparse/block_attention.h"
#include "slimpack/packflow/sparse/parallel_tasks.h"
#include "tests/packflow/sparse/by_counting.h"

namespace slimpack {
namespace {

using slimpack::testing::masked_attention;
using slimpack::testing::Matrix;
using slimpack::testing::random_slice;
using slimpack::testing::relative_error;
using slimpack::testing::sees;
using slimpack::testing::Slice;
using slimpack::testing::weights;

constexpr double kBound = 1e-12;

const SparseMethod kMethods[] = {SampledColumns{}, SampledColumns{.beyond_window = true},
                                 SampledBlocks{}, FlexPrefill{}, XAttention{}};
const SparseMethod kEverything[] = {
    SampledColumns{.alpha = 1},        SampledColumns{.alpha = 1, .beyond_window = true},
    SampledBlocks{.alpha_columns = 1}, SampledBlocks{.alpha_slashes = 1},
    FlexPrefill{.gamma = 1},           FlexPrefill{.gamma = 1, .tau = 1},
    XAttention{.threshold = 1}};

AttentionResult sparse(const Slice& s, const SparseAttention& choice, SparseReport* report) {
  return sparse_attention_forward(s.q, {s.k, s.v}, Tokens(s.prefix), choice, report);
}
AttentionResult dense(const Slice& s) {
  return attention_forward(s.q, {s.k, s.v}, Tokens(s.prefix));
}

TEST(SparseAttention, WithAShareOfOneItIsDenseAttention) {
  Rng rng(1);
  for (const SparseMethod& method : kEverything)
    for (const auto& [prefix, queries] : {std::pair{0, 500}, {450, 300}, {0, 1}, {333, 1}}) {
      const Slice s = random_slice(rng, prefix, queries, 2, 2, 8);
      SparseReport report;
      const AttentionResult actual = sparse(s, {method, {}, {0, 3}}, &report);
      EXPECT_LT(relative_error(actual.out_TND, dense(s).out_TND), kBound) << method.index();
      EXPECT_LT(relative_error(actual.lse_TN, dense(s).lse_TN), kBound) << method.index();
      EXPECT_DOUBLE_EQ(report.density(), 1) << method.index();
      EXPECT_NEAR(report.heads[3].kept->least, 1, kBound);
    }
}

/// The keys that the method chooses for head n of a slice.
KeptKeys chosen(const SparseMethod& method, const Slice& s, const QueryBlocks& queries,
                std::int64_t n) {
  const at::Tensor k_LD = s.k.select(1, n / (s.q.size(1) / s.k.size(1))).contiguous();
  return std::visit([&](const auto& m) { return chooser(m, k_LD, queries); }, method)(
      s.q.select(1, n), 1);
}

TEST(SparseAttention, ComputesAndReportsWhatTheMethodChooses) {
  Rng rng(2);
  for (const SparseMethod& method : kMethods)
    for (const auto& [prefix, queries] :
         {std::pair{0, 600}, {700, 200}, {0, 5}, {0, 1}, {900, 1}}) {
      const Slice s = random_slice(rng, prefix, queries, 2, 2, 4, 4);
      const QueryBlocks blocks = s.blocks();
      std::vector<KeptKeys> kept;
      for (std::int64_t n = 0; n < 4; ++n) kept.push_back(chosen(method, s, blocks, n));
      const auto seen = [&](std::int64_t n, std::int64_t t, std::int64_t j) {
        return sees(kept[static_cast<std::size_t>(n)], blocks, t, j);
      };
      SparseReport report;
      const AttentionResult actual = sparse(s, {method, {}, {2}}, &report);
      const auto expected = masked_attention(s, seen);
      EXPECT_LT(relative_error(actual.out_TND, expected.out), kBound);
      EXPECT_LT((actual.lse_TN - expected.lse).abs().max().item<double>(), kBound);
      // Counts for head 2: pairs one by one, and each query's share of the softmax.
      const Matrix p = weights(s, 2);
      double pairs = 0, least = 1, sum = 0;
      for (std::int64_t t = 0; t < queries; ++t) {
        double share = 0;
        for (std::int64_t j = 0; j <= prefix + t; ++j)
          if (seen(2, t, j)) {
            share += p[static_cast<std::size_t>(t)][static_cast<std::size_t>(j)];
            ++pairs;
          }
        least = std::min(least, share);
        sum += share;
      }
      EXPECT_EQ(report.heads[2].pairs, pairs);
      EXPECT_NEAR(report.heads[2].kept->least, least, kBound);
      EXPECT_NEAR(report.heads[2].kept->mean, sum / queries, kBound);
      EXPECT_FALSE(report.heads[1].kept);
      EXPECT_FALSE(report.heads[2].dense);
    }
}

TEST(SparseAttention, KeysMayLieInAnyOrderOfRowsAndHeads) {
  Rng rng(3);
  const Slice s = random_slice(rng, 300, 300, 2, 2, 8);
  const SparseAttention choice{XAttention{}, {}, {}};
  const auto heads_first = [](const at::Tensor& x) {
    return x.transpose(0, 1).contiguous().transpose(0, 1);
  };
  const auto apart = [](const at::Tensor& x) {  // a part of a larger cache
    at::Tensor cache = at::zeros({1000, 2, 24}, x.options());
    cache.narrow(0, 0, x.size(0)).narrow(2, 8, 8).copy_(x);
    return cache.narrow(0, 0, x.size(0)).narrow(2, 8, 8);
  };
  const AttentionResult expected = sparse(s, choice, nullptr);
  for (const KeysValues& kv :
       {KeysValues{heads_first(s.k), heads_first(s.v)}, KeysValues{apart(s.k), heads_first(s.v)},
        KeysValues{s.k, apart(s.v)}})
    EXPECT_LT(
        relative_error(sparse_attention_forward(s.q, kv, Tokens(300), choice, nullptr).out_TND,
                       expected.out_TND),
        kBound);
}

/// Every pair takes a second, in blocks a fifth longer. All else is free.
SparseCosts pair_costs() {
  SparseCosts costs;
  costs.dense_pair = 1;
  for (BlockCosts& block : costs.blocks) block.pair = 1.2;
  return costs;
}

TEST(SparseAttention, AHeadIsDenseWhereThatIsFaster) {
  // Head 0 weighs all keys equally and so needs 95% of them: 1.2 · 0.95 > 1. Head 1 sees the first
  // key alone.
  Rng rng(4);
  Slice s = random_slice(rng, 2048, 512, 1, 2, 8);
  s.q.fill_(0).select(1, 1).fill_(1);
  s.k.fill_(0).select(0, 0).fill_(100);
  SparseReport report;
  const AttentionResult actual =
      sparse(s, {SampledColumns{.beyond_window = true}, pair_costs(), {}}, &report);
  EXPECT_TRUE(report.heads[0].dense);
  EXPECT_EQ(report.heads[0].pairs, report.dense_pairs);
  EXPECT_FALSE(report.heads[1].dense);
  EXPECT_LT(report.heads[1].pairs, 0.4 * report.dense_pairs);
  EXPECT_LT(relative_error(actual.out_TND.select(1, 0), dense(s).out_TND.select(1, 0)), kBound);
}

TEST(SparseAttention, ASliceIsDenseWhereChoosingCostsTooMuch) {
  Rng rng(5);
  Slice s = random_slice(rng, 2048, 256, 1, 2, 8);
  s.q.fill_(1);  // the first key has all the weight
  s.k.fill_(0).select(0, 0).fill_(100);
  const auto is_dense = [&](const SparseCosts& costs) {
    SparseReport report;
    const AttentionResult actual = sparse(s, {SampledBlocks{}, costs, {}}, &report);
    if (!report.heads[0].dense) return false;
    EXPECT_EQ(report.density(), 1);
    EXPECT_TRUE(actual.out_TND.equal(dense(s).out_TND));  // bit by bit: the same call
    return true;
  };
  const double seconds = dense_seconds(pair_costs(), s.blocks());
  EXPECT_FALSE(is_dense(pair_costs()));
  SparseCosts costs = pair_costs();
  costs.choice = 0.011 * seconds;  // more than may be lost for a first impression
  EXPECT_TRUE(is_dense(costs));
  costs = pair_costs();
  costs.blocks[0].own = seconds / 2;  // two blocks of 128
  EXPECT_TRUE(is_dense(costs));
  costs = pair_costs();
  costs.moved_row = seconds;  // keys and values of two heads lie apart
  EXPECT_FALSE(is_dense(costs)) << "one head of keys lies end to end";
}

TEST(SparseCosts, AddUpToWhatABlockTakes) {
  SparseCosts costs;
  costs.blocks[0] = {.pair = 1e-3, .call = 1e4, .own = 1e6};
  costs.packed_key = 100;
  const QueryBlocks queries(Tokens(1024), Tokens(256));
  BlockMask mask = empty_mask(queries);
  mask[1][0] = mask[1][3] = mask[1][4] = 1;
  // Two own blocks. The second reads 256 keys in place and packs 128: two calls of 128 queries.
  EXPECT_DOUBLE_EQ(sparse_seconds(costs, queries, kept_blocks(mask, queries)),
                   2e6 + 2e4 + 128 * 100 + 128 * 384 * 1e-3);
}

TEST(SparseCosts, BlocksAreJoinedWhereTheyRunFasterSo) {
  // 512 queries see block 0. In blocks of 128 they do 4 · 128 · 128 pairs before their blocks; in
  // blocks of 256 as many, and in one of 768 too: it begins at 0 and ends past them. So the price
  // of a pair decides.
  const QueryBlocks queries(Tokens(1536), Tokens(512));
  BlockMask mask = empty_mask(queries);
  add_columns(mask, std::vector<std::int64_t>{0});
  const KeptKeys kept = kept_blocks(mask, queries);
  SparseCosts costs;
  for (BlockCosts& block : costs.blocks) block.pair = 1;
  EXPECT_EQ(in_fastest_blocks(costs, queries, kept).block, 128);
  costs.blocks[1].pair = 0.9;
  EXPECT_EQ(in_fastest_blocks(costs, queries, kept).block, 256);
  costs.blocks[1].own = 1e6;
  EXPECT_EQ(in_fastest_blocks(costs, queries, kept).block, 128);
}

TEST(SparseCosts, AreMeasuredForTheTypeAndSizesGiven) {
  const at::Tensor q = at::zeros({1, 2, 16}, at::kFloat), k = at::zeros({1, 1, 16}, at::kFloat);
  const SparseCosts costs = measured_sparse_costs(q, {k, k});
  for (const double seconds :
       {costs.dense_pair, costs.blocks[0].pair, costs.blocks[2].own, costs.packed_key,
        costs.moved_row, costs.product_pair, costs.choice}) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1);
  }
}

TEST(ParallelTasks, EveryTaskRunsOnceAndFailuresAreRethrown) {
  at::set_num_threads(3);
  std::vector<std::atomic<int>> runs(100);
  for_each_task(100, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  EXPECT_THROW(for_each_task(5,
                             [](std::int64_t i) {
                               if (i == 3) throw RunFailed("stop");
                             }),
               RunFailed);
  for_each_task(0, [](std::int64_t) { FAIL(); });
  Rng rng(6);
  const Slice s = random_slice(rng, 600, 400, 2, 2, 8);
  const AttentionResult on_three = sparse(s, {XAttention{}, {}, {}}, nullptr);
  at::set_num_threads(1);
  EXPECT_TRUE(on_three.out_TND.equal(sparse(s, {XAttention{}, {}, {}}, nullptr).out_TND));
}

std::string refusal(const SparseMethod& method) {
  Rng rng(7);
  const Slice s = random_slice(rng, 0, 4, 1, 1, 4);
  try {
    static_cast<void>(sparse(s, {method, {}, {}}, nullptr));
  } catch (const InvalidInput& refused) {
    return refused.what();
  }
  return "";
}

TEST(SparseMethods, ConstantsOutOfRangeAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal(SampledColumns{.alpha = 1.5}),
            "sparse attention: alpha is 1.5, but it is a share: above 0 and at most 1");
  EXPECT_NE(refusal(SampledColumns{.alpha = nan}), "");
  EXPECT_NE(refusal(SampledColumns{.rows = 0}).find("rows is 0"), std::string::npos);
  EXPECT_NE(refusal(SampledColumns{.window = -0.1}).find("window"), std::string::npos);
  EXPECT_NE(refusal(SampledColumns{.dense_rows = -1}).find("dense_rows"), std::string::npos);
  EXPECT_NE(refusal(SampledBlocks{.segment = 0}).find("segment"), std::string::npos);
  EXPECT_NE(refusal(SampledBlocks{.rows = 0}).find("rows"), std::string::npos);
  EXPECT_NE(refusal(SampledBlocks{.segment = 8, .rows = 9}).find("segment has 8"),
            std::string::npos);
  EXPECT_NE(refusal(SampledBlocks{.alpha_columns = 0}).find("alpha_columns"), std::string::npos);
  EXPECT_NE(refusal(SampledBlocks{.alpha_slashes = 2}).find("alpha_slashes"), std::string::npos);
  EXPECT_NE(refusal(FlexPrefill{.gamma = 0}).find("gamma"), std::string::npos);
  EXPECT_NE(refusal(FlexPrefill{.tau = -1}).find("tau"), std::string::npos);
  EXPECT_NE(refusal(FlexPrefill{.min_keys = -1}).find("min_keys"), std::string::npos);
  EXPECT_NE(refusal(XAttention{.stride = 3}).find("stride is 3"), std::string::npos);
  EXPECT_NE(refusal(XAttention{.stride = 0}).find("stride"), std::string::npos);
  EXPECT_NE(refusal(XAttention{.threshold = 1.01}).find("threshold"), std::string::npos);
}

}  // namespace
}  // namespace slimpack
