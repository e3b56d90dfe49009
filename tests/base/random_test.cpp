#include "slimpack/base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

namespace slimpack {
namespace {

TEST(Rng, gives_the_published_sequence_of_splitmix64) {
  // The first outputs for seed 1234567, as listed with the reference implementation.
  Rng rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317ULL);
  EXPECT_EQ(rng.next(), 3203168211198807973ULL);
  EXPECT_EQ(rng.next(), 9817491932198370423ULL);
}

RC_GTEST_PROP(Rng, continues_from_its_state, (std::uint64_t seed)) {
  Rng rng(seed);
  (void)rng.next();
  Rng resumed(rng.state());
  for (int i = 0; i < 10; ++i) RC_ASSERT(resumed.next() == rng.next());
}

RC_GTEST_PROP(Rng, stays_below_its_bound, (std::uint64_t seed)) {
  const auto bound =
      *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, 100),
                      rc::gen::suchThat<std::uint64_t>([](auto b) { return b > 0; }));
  Rng rng(seed);
  Rng again(seed);
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t draw = rng.below(bound);
    RC_ASSERT(draw < bound);
    RC_ASSERT(draw == again.below(bound));
  }
}

TEST(Rng, draws_every_value_equally_often) {
  // 70,000 draws of 7 values: each count is binomial with mean 10,000 and deviation
  // √(70,000 · 1/7 · 6/7) = 92.6. Six deviations are 556. Taking the remainder of a power of two
  // instead (8 mod 7) would give 0 twice its share, 17,500.
  std::array<int, 7> counts{};
  Rng rng(42);
  for (int i = 0; i < 70'000; ++i) ++counts[rng.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 556);
}

TEST(Rng, is_without_bias_for_bounds_above_half_the_range) {
  // With bound 3 · 2^62, a 64-bit remainder would hit the lowest third twice as often (1/2 of all
  // draws). Rejection gives 1/3: of 9,000 draws 3,000, deviation √(9,000 · 2/9) = 44.7.
  const std::uint64_t third = std::uint64_t{1} << 62;
  int low = 0;
  Rng rng(7);
  for (int i = 0; i < 9'000; ++i) low += rng.below(3 * third) < third ? 1 : 0;
  EXPECT_NEAR(low, 3'000, 6 * 45);
}

TEST(Rng, uniform_numbers_lie_in_the_unit_interval_around_a_half) {
  Rng rng(3);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double draw = rng.uniform();
    ASSERT_GE(draw, 0.0);
    ASSERT_LT(draw, 1.0);
    sum += draw;
  }
  // The mean of 10,000 has a deviation of √(1/12)/100 = 0.0029.
  EXPECT_NEAR(sum / 10'000, 0.5, 6 * 0.0029);
}

RC_GTEST_PROP(Rng, shuffles_into_a_permutation, (std::uint64_t seed, std::vector<int> values)) {
  std::vector<int> shuffled = values;
  Rng(seed).shuffle(std::span(shuffled));
  RC_ASSERT(std::is_permutation(values.begin(), values.end(), shuffled.begin(), shuffled.end()));
}

TEST(Rng, gives_every_order_equally_often) {
  // 24,000 shuffles of three: each of the 6 orders has mean 4,000, deviation
  // √(24,000 · 1/6 · 5/6) = 57.7.
  std::map<std::vector<int>, int> counts;
  Rng rng(11);
  for (int i = 0; i < 24'000; ++i) {
    std::vector<int> values{0, 1, 2};
    rng.shuffle(std::span(values));
    ++counts[values];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 4'000, 6 * 58);
}

}  // namespace
}  // namespace slimpack
