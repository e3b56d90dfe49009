#include "slimpack/report/svg.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace slimpack {
namespace {

std::vector<std::string> texts(const SvgScale& scale) {
  std::vector<std::string> out;
  for (const double tick : scale.ticks()) out.push_back(scale.text(tick));
  return out;
}

TEST(SvgScale, HasRoundTicksAroundItsValues) {
  // From 0: 30 in four steps is 7.5, so steps of 10.
  EXPECT_EQ(texts(SvgScale(std::vector{3.0, 30.0}, SvgRange::kFromZero)),
            (std::vector<std::string>{"0", "10", "20", "30"}));
  // 33 to 41 are alike, so the range is theirs: 8 in four steps.
  EXPECT_EQ(texts(SvgScale(std::vector{33.0, 41.0}, SvgRange::kAsSpread)),
            (std::vector<std::string>{"32", "34", "36", "38", "40", "42"}));
  EXPECT_EQ(texts(SvgScale(std::vector{0.91, 0.99}, SvgRange::kAsSpread)),
            (std::vector<std::string>{"0.90", "0.92", "0.94", "0.96", "0.98", "1.00"}));
}

TEST(SvgScale, IsLogarithmicWhereValuesDifferManyTimes) {
  const SvgScale scale(std::vector{33.0, 590.0}, SvgRange::kAsSpread);
  EXPECT_TRUE(scale.logarithmic());
  EXPECT_EQ(texts(scale), (std::vector<std::string>{"20", "50", "100", "200", "500", "1000"}));
  EXPECT_NEAR(scale.place(std::sqrt(20.0 * 1000)), 0.5, 1e-12);
  EXPECT_EQ(texts(SvgScale(std::vector{3.0, 2e6}, SvgRange::kAsSpread)),
            (std::vector<std::string>{"1", "10", "100", "1000", "10000", "100000", "1000000",
                                      "10000000"}));
  EXPECT_FALSE(SvgScale(std::vector{0.0, 590.0}, SvgRange::kAsSpread).logarithmic());
}

TEST(SvgScale, TakesEqualValuesAndNone) {
  for (const auto& values : {std::vector<double>{}, {0, 0}, {7, 7}, {1e-9, 1e-9}})
    for (const SvgRange range : {SvgRange::kFromZero, SvgRange::kAsSpread}) {
      const SvgScale scale(values, range);
      EXPECT_GE(scale.ticks().size(), 2u);
      EXPECT_LT(scale.low(), scale.high());
    }
}

RC_GTEST_PROP(SvgScale, HoldsAllValues, ()) {
  const auto whole =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1'000'000'000)));
  const double size = std::pow(10, *rc::gen::inRange(-6, 6));
  std::vector<double> values;
  for (const int value : whole) values.push_back(value * size);
  for (const SvgRange range : {SvgRange::kFromZero, SvgRange::kAsSpread}) {
    const SvgScale scale(values, range);
    RC_ASSERT(std::ranges::is_sorted(scale.ticks()));
    RC_ASSERT(scale.ticks().size() >= 2 && scale.ticks().size() <= 12);
    for (const double value : values) {
      RC_ASSERT(scale.place(value) >= -1e-6);
      RC_ASSERT(scale.place(value) <= 1 + 1e-6);
    }
  }
}

TEST(SvgUnit, IsTheLargestThatTheLargestValueFills) {
  EXPECT_EQ(unit_of_nanoseconds(std::vector{3e6, 2e9}).name, "s");
  EXPECT_EQ(unit_of_nanoseconds(std::vector{999.0}).name, "ns");
  EXPECT_EQ(unit_of_bytes(std::vector{1048576.0}).name, "MiB");
  EXPECT_EQ(unit_of_bytes(std::vector<double>{}).name, "B");
}

}  // namespace
}  // namespace slimpack
