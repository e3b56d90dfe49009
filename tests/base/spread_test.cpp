#include "slimpack/base/median.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace slimpack {
namespace {

TEST(Spread, IsOfTheSmallestValuesThatSoManyDoNotExceed) {
  // 1 to 100 in another order: at least 50 and 95 of them do not exceed 50 and 95; mean 50.5.
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), 1);
  std::swap(values.front(), values.back());
  const Spread spread = step_spread(values);
  EXPECT_EQ(spread.mean, 50.5);
  EXPECT_EQ(spread.p50, 50);
  EXPECT_EQ(spread.p95, 95);
  EXPECT_EQ(spread.worst, 100);
}

TEST(Spread, OfFewValuesHasThem) {
  const Spread one = step_spread({7});
  EXPECT_EQ(one.mean, 7);
  EXPECT_EQ(one.p50, 7);
  EXPECT_EQ(one.p95, 7);
  EXPECT_EQ(one.worst, 7);
  // Two of four values do not exceed 2; 95% of four are 3.8, so p95 is the fourth.
  const Spread four = step_spread({4, 1, 3, 2});
  EXPECT_EQ(four.p50, 2);
  EXPECT_EQ(four.p95, 4);
}

TEST(Spread, HasItsFieldsInJson) {
  EXPECT_EQ(to_json(Spread{2.5, 2, 4, 5}),
            nlohmann::json::parse(R"({"mean": 2.5, "p50": 2.0, "p95": 4.0, "worst": 5.0})"));
}

}  // namespace
}  // namespace slimpack
