// Attention of few rows against attention by definition, in sequences and trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "slimpack/packflow/decode/row_attention.h"
#include "tests/packflow/kernels/attention_by_definition.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

using slimpack::testing::Attention;
using slimpack::testing::random_attention;
using slimpack::testing::relative_error;

/// Softmax attention of one row on the keys that a list names.
at::Tensor attend_listed(const Attention& a, std::int64_t row,
                         const std::vector<std::int64_t>& keys) {
  const at::Tensor index = at::tensor(keys);
  const std::int64_t sharing = a.q.size(1) / a.k.size(1);
  std::vector<at::Tensor> heads;
  for (std::int64_t n = 0; n < a.q.size(1); ++n) {
    const at::Tensor k = a.k.select(1, n / sharing).index_select(0, index);
    const at::Tensor v = a.v.select(1, n / sharing).index_select(0, index);
    const at::Tensor scores = at::mv(k, a.q[row][n]) / std::sqrt(static_cast<double>(k.size(1)));
    heads.push_back(at::mv(v.t(), scores.softmax(0)));
  }
  return at::cat(heads);
}

/// Runs the kernel on the last rows of `a`, the keys of all in a cache with room to spare.
template <class T>
at::Tensor attend_last(const Attention& a, const OwnKeys& own, std::int64_t window = 0) {
  constexpr auto type = c10::CppTypeToScalarType<T>::value;
  constexpr auto sums = c10::CppTypeToScalarType<Sum<T>>::value;
  const std::int64_t tokens = a.k.size(0), heads = a.k.size(1), dim = a.k.size(2);
  const std::int64_t rows = own.rows(), width = a.q.size(1) * dim, capacity = tokens + 7;
  const auto cache = [&](const at::Tensor& x) {
    at::Tensor room = at::full({heads, capacity, dim}, std::nan(""), type);
    room.narrow(1, 0, tokens).copy_(x.transpose(0, 1));
    return room;
  };
  const at::Tensor k = cache(a.k), v = cache(a.v);
  at::Tensor q = a.q.narrow(0, tokens - rows, rows).reshape({rows, width}).to(sums).contiguous();
  at::Tensor out = at::empty({rows, width}, type);
  attend_rows<T>({q.const_data_ptr<Sum<T>>(), rows, width}, a.q.size(1),
                 {k.mutable_data_ptr<T>(), v.mutable_data_ptr<T>(), heads, capacity, dim, window},
                 tokens - own.keys(), own, {out.mutable_data_ptr<T>(), rows, width});
  return out.to(at::kDouble);
}

template <class T>
class RowAttention : public ::testing::Test {
 protected:
  /// In fp64 that of sums; else of inputs that are rounded to the type: 2^-8 in bf16.
  static constexpr double kTolerance = std::is_same_v<T, double>  ? 1e-12
                                       : std::is_same_v<T, float> ? 1e-5
                                                                  : 2e-2;
};
using Types = ::testing::Types<double, float, c10::BFloat16>;
TYPED_TEST_SUITE(RowAttention, Types);

TYPED_TEST(RowAttention, OfASequenceSeesAllKeysBefore) {
  Rng rng(1);
  // Blocks are of 64 keys, tasks of 1,024, lanes 16: whole, broken and several of each.
  for (const auto& [tokens, rows] :
       {std::pair{1, 1}, {64, 1}, {65, 3}, {1024, 1}, {1025, 6}, {2500, 17}}) {
    for (const auto& [kv_heads, sharing, dim] :
         {std::tuple{1, 1, 8}, {2, 3, 64}, {1, 4, 20}, {1, 2, 96}}) {
      const Attention a = random_attention(rng, tokens, kv_heads, sharing, dim);
      const at::Tensor actual = attend_last<TypeParam>(a, OwnKeys(rows));
      for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<std::int64_t> keys(static_cast<std::size_t>(tokens - rows + r + 1));
        std::iota(keys.begin(), keys.end(), 0);
        EXPECT_LT(relative_error(actual[r], attend_listed(a, tokens - rows + r, keys)),
                  this->kTolerance)
            << tokens << " tokens, row " << r;
      }
    }
  }
}

TYPED_TEST(RowAttention, OfATreeSeesAncestorsAndNoOthers) {
  //  row 0 ── 1 ── 3
  //    └───── 2 ── 4     and 5 beside row 0.
  const std::vector<std::int32_t> parents{-1, 0, 0, 1, 2, -1};
  const std::vector<std::vector<std::int64_t>> paths{{0},       {0, 1},    {0, 2},
                                                     {0, 1, 3}, {0, 2, 4}, {5}};
  Rng rng(2);
  for (const std::int64_t before : {0, 1, 63, 64, 1022, 1500}) {
    const Attention a = random_attention(rng, before + 6, 2, 3, 32);
    const at::Tensor actual = attend_last<TypeParam>(a, OwnKeys(parents, 6));
    for (std::int64_t r = 0; r < 6; ++r) {
      std::vector<std::int64_t> keys(static_cast<std::size_t>(before));
      std::iota(keys.begin(), keys.end(), 0);
      for (const std::int64_t own : paths[static_cast<std::size_t>(r)])
        keys.push_back(before + own);
      EXPECT_LT(relative_error(actual[r], attend_listed(a, before + r, keys)), this->kTolerance)
          << before << " keys before, row " << r;
    }
  }
}

TYPED_TEST(RowAttention, WithinAWindowSeesTheNearestKeysAlone) {
  Rng rng(4);
  // Rows that see keys before their own and rows that do not; windows within a task and beyond one.
  for (const auto& [tokens, rows, window] : {std::tuple{1, 1, 1},
                                             {40, 1, 5},
                                             {70, 6, 3},
                                             {70, 6, 70},
                                             {1300, 17, 1100},
                                             {2500, 9, 40}}) {
    const Attention a = random_attention(rng, tokens, 2, 3, 32);
    const at::Tensor actual = attend_last<TypeParam>(a, OwnKeys(rows), window);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t last = tokens - rows + r;
      std::vector<std::int64_t> keys(
          static_cast<std::size_t>(std::min<std::int64_t>(window, last + 1)));
      std::iota(keys.begin(), keys.end(), last + 1 - std::ssize(keys));
      EXPECT_LT(relative_error(actual[r], attend_listed(a, last, keys)), this->kTolerance)
          << tokens << " tokens, row " << r << ", window " << window;
    }
  }
}

TYPED_TEST(RowAttention, WithinAWindowOfATreeCountsByDepth) {
  //  row 0 ── 1 ── 3
  //    └───── 2 ── 4     and 5 beside row 0.
  const std::vector<std::int32_t> parents{-1, 0, 0, 1, 2, -1};
  const std::vector<std::vector<std::int64_t>> paths{{0},       {0, 1},    {0, 2},
                                                     {0, 1, 3}, {0, 2, 4}, {5}};
  Rng rng(5);
  for (const std::int64_t window : {1, 2, 3, 20, 70}) {
    const std::int64_t before = 64;
    const Attention a = random_attention(rng, before + 6, 2, 3, 32);
    const at::Tensor actual = attend_last<TypeParam>(a, OwnKeys(parents, 6), window);
    for (std::int64_t r = 0; r < 6; ++r) {
      // The whole path from the first token, of which the window keeps the end.
      std::vector<std::int64_t> keys(static_cast<std::size_t>(before));
      std::iota(keys.begin(), keys.end(), 0);
      for (const std::int64_t own : paths[static_cast<std::size_t>(r)])
        keys.push_back(before + own);
      if (std::ssize(keys) > window) keys.erase(keys.begin(), keys.end() - window);
      EXPECT_LT(relative_error(actual[r], attend_listed(a, before + r, keys)), this->kTolerance)
          << "row " << r << ", window " << window;
    }
  }
}

TYPED_TEST(RowAttention, OfTheLastRowsOfATreeIsThatOfTheWholeTree) {
  const std::vector<std::int32_t> parents{-1, 0, 0, 1, 2, -1};
  Rng rng(3);
  const Attention a = random_attention(rng, 106, 2, 3, 32);
  const at::Tensor whole = attend_last<TypeParam>(a, OwnKeys(parents, 6));
  EXPECT_TRUE(at::equal(attend_last<TypeParam>(a, OwnKeys(parents, 2)), whole.narrow(0, 4, 2)));
}

}  // namespace
}  // namespace slimpack
