#include <gtest/gtest.h>

#include "tests/support/bound_costs.h"
#include "tests/support/counted_costs.h"
#include "tests/support/small_cost.h"

namespace slimpack {
namespace {

using testing::small_cost;

/// Two forward packs of two and one slices, and three backward packs of one.
PackPlan packs_of_three_slices() {
  const Slice head{SequenceId(0), Tokens(0), Tokens(64)},
      tail{SequenceId(0), Tokens(64), Tokens(96)}, other{SequenceId(1), Tokens(0), Tokens(40)};
  return {{{{head, other}}, {{tail}}}, {{{tail}}, {{head}}, {{other}}}};
}

/// The terms of the model's own formula, summed without task_times.
double counted(const RecomputingCosts& cost, const StageLayout& layout, const PackPlan& packs,
               const std::vector<double>& speed) {
  double sum = 0;
  for (std::int32_t r = 0; r < layout.ranks(); ++r)
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : packs.of(pass)) {
        const PackCost own = table_of(cost, layout).rank(r, pass, pack.replicas);
        sum += (own.per_pack + own.per_slice * static_cast<double>(pack.slices.size())) /
               speed[static_cast<std::size_t>(r)];
      }
  return sum;
}

TEST(Overheads, AreThePackAndSliceTermsOfEveryRankAndRecomputation) {
  const PackPlan packs = packs_of_three_slices();
  const std::vector<double> speed{1.0, 0.5};
  for (const Recompute recompute : {Recompute::kElementwise, Recompute::kNothing, Recompute::kFull,
                                    Recompute::kAttention, Recompute::kMlp}) {
    const RecomputingCosts cost = with_recompute(small_cost(), recompute);
    StageLayout layout{{0, 3, 6}};
    const Nanos one_stage = table_of(cost, layout, {1, speed}).overhead_time(packs);
    // Each of 2 · (2 + 3) actions is rounded to a nanosecond, with the overheads and without.
    EXPECT_NEAR(static_cast<double>(one_stage.count()), counted(cost, layout, packs, speed), 10);
    EXPECT_GT(one_stage, Nanos(0));
    layout = {{0, 2, 3, 5, 6}, StagePlacement::looped(2, 2)};
    EXPECT_NEAR(
        static_cast<double>(table_of(cost, layout, {1, speed}).overhead_time(packs).count()),
        counted(cost, layout, packs, speed), 20);
  }
}

TEST(Overheads, OfMergedPacksAndOfASharedVocabularyAreCounted) {
  RecomputingCosts cost = with_recompute(small_cost(2), Recompute::kElementwise);
  PackPlan packs = packs_of_three_slices();
  for (MicroPack& pack : packs.forward) pack.replicas = 2;
  for (MicroPack& pack : packs.backward) pack.replicas = 2;
  const StageLayout layout{{0, 3, 6}, {}, true};
  const std::vector<double> speed{1, 1};
  // 10 actions, and E of 2 packs, H and G of 3 packs on both ranks.
  EXPECT_NEAR(static_cast<double>(table_of(cost, layout, {2, speed}).overhead_time(packs).count()),
              counted(cost, layout, packs, speed), 10 + 2 * (2 + 3 + 3));
}

TEST(Overheads, LeaveWhatGrowsWithTokens) {
  const Costs cost = small_cost(2);
  const LayerCosts& layer = cost.kinds.front();
  const Costs rest = without_overheads(cost);
  EXPECT_EQ(rest.kinds.front().forward.per_token, layer.forward.per_token);
  EXPECT_EQ(rest.kinds.front().backward.per_pair, layer.backward.per_pair);
  EXPECT_EQ(rest.kinds.front().forward.per_prefix_token, layer.forward.per_prefix_token);
  EXPECT_EQ(rest.kinds.front().merge.front().forward.per_token,
            layer.merge.front().forward.per_token);
  EXPECT_EQ(without_overheads(rest), rest);
}

TEST(Overheads, UnderAutogradAreThoseOfTheGraphThatAPackKeeps) {
  Costs costs = testing::counted_costs({0, 0});
  costs.kinds.front().forward.per_pack = 1000;   // runs without a graph
  costs.kinds.front().backward.per_pack = 7000;  // runs forward again
  costs.autograd->layers[0].elementwise.forward.per_pack = 2000;
  costs.autograd->layers[0].elementwise.backward.per_pack = 5000;
  costs.autograd->stage.per_pack = 100;
  const StageLayout layout{{0, 2}};
  const Slice whole{SequenceId(0), Tokens(0), Tokens(50)};
  const PackPlan paired{{{{whole}}}, {{{whole}}}};
  // Two layers with their graphs, and the stage's own time of one forward.
  EXPECT_EQ(table_of(with_recompute(costs, Recompute::kElementwise), layout).overhead_time(paired),
            Nanos(2 * 2000 + 2 * 5000 + 100));
  // No slice needs keys of the only one, so that forward is left out on the last stage; backward
  // runs it again, with the stage's own time.
  EXPECT_EQ(table_of(with_recompute(costs, Recompute::kFull), layout).overhead_time(paired),
            Nanos(2 * 7000 + 100));
}

}  // namespace
}  // namespace slimpack
