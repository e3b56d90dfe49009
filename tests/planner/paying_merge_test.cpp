#include "slimpack/planner/paying_merge.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/small_cost.h"

namespace slimpack {
namespace {

constexpr std::array kOne = {Recompute::kElementwise};

/// A token takes 1 µs in each pass and layer, on all replicas of a group together; every replica
/// beyond the first adds 1 µs to a MicroPack.
Costs plain_cost() {
  Costs cost = testing::small_cost();
  LayerCosts layer;
  layer.forward.per_token = layer.backward.per_token = 1000;
  for (int group = 2; group <= 64; group *= 2) {
    MergeTime merge;
    merge.forward.per_pack = merge.backward.per_pack = 1000.0 * (group - 1);
    layer.merge.push_back(merge);
  }
  cost.kinds = {layer};
  cost.ends = {};
  return cost;
}

TEST(PayingMerge, IsTheGroupOnWhichTheDocumentEndsSoonest) {
  // 64 tokens on g replicas take 64 / g + g - 1 µs in each pass and layer, in one slice: 64, 33,
  // 19, 15, 19, … for g = 1, 2, 4, 8, 16.
  const Costs cost = plain_cost();
  EXPECT_EQ(paying_merge(cost, kOne, {Tokens(64)}, 64), 8);
  EXPECT_EQ(paying_merge(cost, kOne, {Tokens(64)}, 4), 4);
  // 16, 9, 7, 9 µs; of one token no replica takes anything off.
  EXPECT_EQ(paying_merge(cost, kOne, {Tokens(16)}, 64), 4);
  EXPECT_EQ(paying_merge(cost, kOne, {Tokens(1)}, 64), 1);
}

TEST(PayingMerge, CountsThatAPipelineFillsAndDrains) {
  // Four ranks have a quarter of the layers each. n slices on g replicas take
  // (64 / g + n (g - 1) + 3 (64 / (g n) + g - 1)) / 4 µs of all layers' time: at best 67 / 4 for
  // g = 1 (n = 64), 55 / 4 for 2 (n = 8), 49 / 4 for 4 (n = 4), 55 / 4 for 8 (n = 2).
  EXPECT_EQ(paying_merge(plain_cost(), kOne, {Tokens(64), 4}, 64), 4);
}

TEST(PayingMerge, IsTheLargestOfAllRecomputations) {
  // Tokens that are computed again make more replicas pay.
  Costs cost = plain_cost();
  AgainTimes again;
  again.full.per_token = 12'000;
  cost.kinds.front().again = again;
  // Backward then takes 13 · 64 / g + g - 1 beside forward's 64 / g + g - 1, and the exchange once
  // more: 14 · 64 / g + 3 (g - 1) is least for g = 16 (56 + 45; 112 + 21 and 28 + 93 beside it).
  const std::array both = {Recompute::kElementwise, Recompute::kFull};
  EXPECT_EQ(paying_merge(cost, both, {Tokens(64)}, 64), 16);
  EXPECT_EQ(paying_merge(cost, kOne, {Tokens(64)}, 64), 8);
}

}  // namespace
}  // namespace slimpack
