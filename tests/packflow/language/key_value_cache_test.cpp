// KeyValueCache: what it keeps when it grows, is cut back and keeps some rows.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "slimpack/packflow/language/key_value_cache.h"

namespace slimpack {
namespace {

constexpr std::size_t kLayers = 2;

constexpr LayerShape kLayer{.num_kv_heads = 3, .head_dim = 4, .value_dim = 4};

/// Every number of a row says which row and layer it is of, and whether of a key or a value.
double number_of(std::int64_t token, std::size_t layer, bool is_value) {
  return static_cast<double>(token * 100 + static_cast<std::int64_t>(layer) * 10) +
         (is_value ? 1 : 0);
}

void append(KeyValueCache& cache, const std::vector<std::int64_t>& tokens) {
  const std::int64_t before = cache.size(), rows = std::ssize(tokens);
  cache.reserve(before + rows);
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const KeysValues kv = cache.rows(layer, before + rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      kv.k[before + r].fill_(number_of(tokens[static_cast<std::size_t>(r)], layer, false));
      kv.v[before + r].fill_(number_of(tokens[static_cast<std::size_t>(r)], layer, true));
    }
  }
  cache.append(rows);
}

void expect_tokens(const KeyValueCache& cache, const std::vector<std::int64_t>& tokens) {
  ASSERT_EQ(cache.size(), std::ssize(tokens));
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const KeysValues kv = cache.rows(layer, cache.size());
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      const auto row = static_cast<std::int64_t>(r);
      EXPECT_TRUE(kv.k[row].eq(number_of(tokens[r], layer, false)).all().item<bool>());
      EXPECT_TRUE(kv.v[row].eq(number_of(tokens[r], layer, true)).all().item<bool>());
    }
  }
}

KeyValueCache empty_cache() {
  Decoder shape;
  shape.set_layers(std::vector<LayerShape>(kLayers, kLayer));
  return {shape, Dtype::kFp32, at::kCPU};
}

TEST(KeyValueCache, KeepsItsRowsWhenItGrows) {
  KeyValueCache cache = empty_cache();
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < 40; ++t) {
    append(cache, {t});
    tokens.push_back(t);
  }
  expect_tokens(cache, tokens);
}

TEST(KeyValueCache, GrowsByHalfSoThatTokenByTokenCostsLittle) {
  KeyValueCache cache = empty_cache();
  append(cache, std::vector<std::int64_t>(100, 1));
  const Bytes full = cache.bytes();
  // 100 tokens × 3 heads × 4 numbers × 4 bytes × keys and values × 2 layers = 19,200 bytes.
  EXPECT_EQ(full, Bytes(19200));
  append(cache, {1});
  EXPECT_EQ(cache.bytes(), Bytes(28800));  // 150 tokens
  append(cache, std::vector<std::int64_t>(49, 1));
  EXPECT_EQ(cache.bytes(), Bytes(28800));
}

TEST(KeyValueCache, ForgetsWhatIsCutOffAndWritesOverIt) {
  KeyValueCache cache = empty_cache();
  append(cache, {1, 2, 3, 4, 5});
  cache.truncate(2);
  expect_tokens(cache, {1, 2});
  append(cache, {6});
  expect_tokens(cache, {1, 2, 6});
  cache.truncate(9);  // more than there are
  expect_tokens(cache, {1, 2, 6});
}

TEST(KeyValueCache, KeepsTheNamedRowsInOrder) {
  KeyValueCache cache = empty_cache();
  append(cache, {1, 2, 10, 11, 12, 13, 14});
  cache.keep(2, std::vector<std::int32_t>{0, 2, 3});
  expect_tokens(cache, {1, 2, 10, 12, 13});
  cache.keep(2, std::vector<std::int32_t>{2});
  expect_tokens(cache, {1, 2, 13});
  cache.keep(2, {});
  expect_tokens(cache, {1, 2});
}

}  // namespace
}  // namespace slimpack
