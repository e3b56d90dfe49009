#include "slimpack/solver/chain_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "slimpack/base/random.h"

namespace slimpack {
namespace {

double time_of(const PackCost& cost, const Slice& slice) {
  return cost.per_pack + cost(slice);
}

/// When the last of these slices, in this order, has passed all stages.
double passed(const std::vector<PackCost>& stages, const std::vector<Slice>& slices) {
  std::vector<double> ends(slices.size(), 0);  // on the stage before
  for (const PackCost& stage : stages) {
    double free = 0;
    for (std::size_t i = 0; i < slices.size(); ++i)
      free = ends[i] = std::max(free, ends[i]) + time_of(stage, slices[i]);
  }
  return ends.back();
}

/// The least over all cuts.
double least_of_all(const std::vector<PackCost>& stages, int length, bool from_head) {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1U << (length - 1); ++cuts) {
    std::vector<Slice> slices{{SequenceId(), Tokens(0), Tokens(1)}};
    for (int t = 1; t < length; ++t)
      if ((cuts >> (t - 1) & 1U) != 0)
        slices.push_back({SequenceId(), Tokens(t), Tokens(t + 1)});
      else
        slices.back().end = Tokens(t + 1);
    if (!from_head) std::ranges::reverse(slices);
    least = std::min(least, passed(stages, slices));
  }
  return least;
}

PackCost random_stage(Rng& rng, Tokens window) {
  const auto up_to = [&](double most) { return rng.below(3) == 0 ? 0 : most * rng.uniform(); };
  PackCost cost{up_to(10), up_to(10), up_to(4), up_to(1), up_to(2)};
  cost.window = window;
  if (window > Tokens(0)) cost.per_window_pair = up_to(2), cost.per_window_prefix = up_to(2);
  const double pairs = window > Tokens(0) ? cost.per_window_pair : cost.per_pair;
  if (rng.below(4) != 0) cost.travel = {up_to(20), up_to(20), pairs * rng.uniform()};
  return cost;
}

RC_GTEST_PROP(ChainBound, NoCutPassesSooner, (std::uint64_t seed)) {
  Rng rng(seed);
  const Tokens window(rng.below(2) == 0 ? 0 : 1 + static_cast<std::int64_t>(rng.below(6)));
  std::vector<PackCost> stages;
  for (std::uint64_t s = 2 + rng.below(3); s > 0; --s) stages.push_back(random_stage(rng, window));
  const int length = 1 + static_cast<int>(rng.below(10));
  const double bound = chain_bound(stages, Tokens(length));
  RC_ASSERT(bound <= least_of_all(stages, length, rng.below(2) == 0) * (1 + 1e-9));
}

void expect_near(double bound, double expected) {
  EXPECT_LE(bound, expected);
  EXPECT_GE(bound, 0.95 * expected);
}

TEST(ChainBound, CutsAsOverheadsAllow) {
  // Two stages of 1 a token, 20 a MicroPack. n slices of 1,280 tokens take 1,280 + 20·n on one
  // stage and 1,280/n + 20 more on the other: 1,620 for n = 8.
  PackCost stage;
  stage.per_pack = 20;
  stage.per_token = 1;
  expect_near(chain_bound({stage, stage}, Tokens(1280)), 1620);
  // Two such stages between them: 1,280 + 20·n + 3 · (1,280/n + 20), 1,894.3 for n = 14.
  expect_near(chain_bound({stage, stage, stage, stage}, Tokens(1280)), 1894.3);
}

TEST(ChainBound, CountsTheKeysThatEverySliceSends) {
  // Two stages of 1 a token, keys of 1 a token that nothing hides: n slices send the keys of 1/n,
  // 2/n, … of 1,280 tokens. 1,280 + 1,280 · (n + 1)/2 on one stage, and on the other the slice that
  // is longest with its keys: with one slice 2,560 + 2,560. With two of a and 1,280 − a the
  // stages take a + a + 1,280 − a + 1,280 = a + 2,560, and the longer of 2·a and 2,560 − a again:
  // for a = 0 as with one slice, for 853.3 it is 3,413.3 + 1,706.7 = 5,120, too, between these no
  // less. More slices send more.
  PackCost stage;
  stage.per_token = 1;
  stage.travel = {Travel::kNever, 1, 0};
  expect_near(chain_bound({stage, stage}, Tokens(1280)), 5120);
  // Without messages the slices could be as short as can be.
  stage.travel = {};
  EXPECT_LE(chain_bound({stage, stage}, Tokens(1280)), 1280 + 1);
}

TEST(ChainBound, SaysNothingWhereOthersCouldHideMore) {
  PackCost stage;
  stage.per_pack = 20;
  stage.per_pair = 1;
  stage.travel = {3, 3, 2};
  EXPECT_EQ(chain_bound({stage, stage}, Tokens(100)), 0);
}

}  // namespace
}  // namespace slimpack
