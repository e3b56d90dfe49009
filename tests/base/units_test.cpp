#include "slimpack/base/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace slimpack {
namespace {

TEST(Quantities, add_compare_and_scale) {
  Tokens tokens(10);
  tokens += Tokens(5);
  tokens -= Tokens(3);
  EXPECT_EQ(tokens, Tokens(12));
  EXPECT_EQ(Tokens(7) + Tokens(2) - Tokens(1), Tokens(8));
  EXPECT_EQ(Tokens(7) * 3, Tokens(21));
  EXPECT_EQ(3 * Tokens(7), Tokens(21));
  EXPECT_EQ(Tokens(22) / 3, Tokens(7));
  EXPECT_LT(Tokens(1), Tokens(2));
  EXPECT_EQ(Tokens(), Tokens(0));
}

TEST(Quantities, of_different_units_do_not_mix) {
  EXPECT_FALSE((std::is_convertible_v<Tokens, Bytes>));
  EXPECT_FALSE((std::is_constructible_v<Bytes, Tokens>));
  EXPECT_FALSE((std::is_convertible_v<int, Tokens>));
  EXPECT_FALSE((std::is_constructible_v<StageId, PackId>));
}

TEST(Nanoseconds, convert_to_seconds_and_back_to_the_nearest) {
  EXPECT_DOUBLE_EQ(to_seconds(Nanos(1'500'000'000)), 1.5);
  EXPECT_EQ(from_seconds(1.5), Nanos(1'500'000'000));
  EXPECT_EQ(from_seconds(1.6e-9), Nanos(2));
  EXPECT_EQ(from_seconds(-1.6e-9), Nanos(-2));
  EXPECT_EQ(from_seconds(0.4e-9), Nanos(0));
}

TEST(Ids, are_places_in_a_vector) {
  EXPECT_EQ(StageId(3).index(), 3u);
  EXPECT_EQ(StageId(std::size_t{3}), StageId(3));
  EXPECT_LT(StageId(2), StageId(3));
}

}  // namespace
}  // namespace slimpack
