// VerificationCosts: between points, and as they move.
#include <gtest/gtest.h>

#include "slimpack/packflow/speculate/verification_costs.h"

namespace slimpack {
namespace {

VerificationCosts small_costs() {
  return VerificationCosts({{1, 5}, {4, 8}, {8, 10}});
}

TEST(VerificationCosts, AreLinearBetweenPointsAndBeyondTheLast) {
  const VerificationCosts costs = small_costs();
  EXPECT_DOUBLE_EQ(costs.seconds(1), 5);
  EXPECT_DOUBLE_EQ(costs.seconds(2), 6);  // 5 + (8 − 5)/3
  EXPECT_DOUBLE_EQ(costs.seconds(4), 8);
  EXPECT_DOUBLE_EQ(costs.seconds(6), 9);
  EXPECT_DOUBLE_EQ(costs.seconds(10), 11);  // half a second a row
  EXPECT_DOUBLE_EQ(VerificationCosts({{1, 5}}).seconds(7), 5);
}

TEST(VerificationCosts, MoreRowsNeverTakeLess) {
  const VerificationCosts costs({{1, 5}, {2, 7}, {4, 6}, {8, 9}});
  EXPECT_DOUBLE_EQ(costs.seconds(3), 7);
  EXPECT_DOUBLE_EQ(costs.seconds(4), 7);
  EXPECT_DOUBLE_EQ(costs.seconds(8), 9);
}

TEST(VerificationCosts, FollowMeasurementsNearbyAndALittleElsewhere) {
  VerificationCosts costs = small_costs();
  costs.observe(4, 9);
  EXPECT_DOUBLE_EQ(costs.seconds(4), 8.1);   // a tenth of what it is off
  EXPECT_DOUBLE_EQ(costs.seconds(1), 5.02);  // a fiftieth
  for (int i = 0; i < 200; ++i) costs.observe(4, 12);
  EXPECT_NEAR(costs.seconds(4), 12, 0.01);
}

TEST(VerificationCosts, OneInterruptedPassMovesThemByAFortieth) {
  VerificationCosts costs = small_costs();
  costs.observe(4, 1000);
  EXPECT_DOUBLE_EQ(costs.seconds(4), 8.2);  // as if it had taken 10: a quarter more than 8
}

TEST(VerificationCosts, LearnALongerTextFromPassesOfManyRowsAlone) {
  // Keys of a longer text cost every pass the same: 2 more.
  VerificationCosts costs = small_costs();
  for (int i = 0; i < 30; ++i) {
    costs.observe(4, 10);
    costs.observe(8, 12);
  }
  EXPECT_GT(costs.seconds(1), 5.3);
  EXPECT_LT(costs.seconds(1), 7.01);
}

}  // namespace
}  // namespace slimpack
