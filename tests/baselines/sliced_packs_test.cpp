#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "slimpack/baselines/makers.h"
#include "slimpack/schedule/schedule.h"
#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::job_of;
using testing::made_by;
using testing::tokens;

/// Forward time of a MicroPack's tokens and pairs over all stages.
double flops_time(const MicroPack& pack, const Costs& cost, const StageLayout& layout) {
  double time = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const PackCost terms = stage_cost(cost, layout, StageId(s), Pass::kForward);
    for (const Slice& slice : pack.slices)
      time += terms.per_token * static_cast<double>(slice.length().count()) +
              terms.per_pair * slice.causal_pairs();
  }
  return time;
}

Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return Slice{SequenceId(sequence), Tokens(begin), Tokens(end)};
}

/// A layer on each stage.
StageLayout layout_of(std::int32_t ranks, std::int32_t stages_per_rank) {
  StageLayout layout = testing::one_layer_each(ranks * stages_per_rank);
  layout.placement = StagePlacement::looped(ranks, stages_per_rank);
  return layout;
}

TEST(SlimPipeBaseline, CutsEveryPackIntoEqualTokensAndRunsItsSlicesBackInReverse) {
  // Context 100, 2 stages: packs of 90 + 10 and of 40; 4 slices each, 25 and 10 tokens.
  const SequenceLengths lengths = tokens({90, 10, 40});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made = made_by("slimpipe", job_of(layout, 1, Tokens(100)), lengths, cost);
  EXPECT_EQ(made.discipline, Discipline::kSlicedOneFOneB);
  EXPECT_EQ(made.ahead_per_stage, 2);
  const MicroPack a{{slice(0, 0, 25)}}, b{{slice(0, 25, 50)}}, c{{slice(0, 50, 75)}},
      d{{slice(0, 75, 90), slice(1, 0, 10)}};
  const MicroPack e{{slice(2, 0, 10)}}, f{{slice(2, 10, 20)}}, g{{slice(2, 20, 30)}},
      h{{slice(2, 30, 40)}};
  const PackPlan& packs = made.plan.replicas.front().packs;
  EXPECT_EQ(packs.forward, (std::vector<MicroPack>{a, b, c, d, e, f, g, h}));
  EXPECT_EQ(packs.backward, (std::vector<MicroPack>{d, c, b, a, h, g, f, e}));
}

TEST(SlimPipeBaseline, HasAMultipleOfTheRanksOfSlicesAPack) {
  const Costs cost = testing::round_cost();
  const SequenceLengths lengths = tokens({600});
  // By ranks, from 1 on: the least multiple that is 4 or more.
  const std::vector<std::size_t> published{4, 4, 6, 4};
  for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
    const Job job = job_of(testing::one_layer_each(ranks), 1, Tokens(600));
    const BaselinePlan made = made_by("slimpipe", job, lengths, cost);
    EXPECT_EQ(made.plan.replicas.front().packs.forward.size(),
              published[static_cast<std::size_t>(ranks) - 1]);
    std::vector<std::int32_t> tried;
    for (const Tuning& tuning :
         baseline_named("slimpipe").tunings(testing::input_of(job, lengths, cost)))
      if (!tuning.tails && tuning.pack == Tokens(0)) tried.push_back(tuning.slices);
    // Ranks times 1, 2, 4, … up to 64 slices, without the published number, which comes first.
    std::vector<std::int32_t> expected{0};
    for (std::int32_t count = ranks; count <= 64; count *= 2)
      if (count != std::int32_t(published[static_cast<std::size_t>(ranks) - 1]))
        expected.push_back(count);
    EXPECT_EQ(tried, expected);
  }
}

RC_GTEST_PROP(SlimPipeBaseline, SlicesOfAPackDifferByOneTokenAtMost, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 60))));
  const Costs cost = testing::round_cost();
  const std::int32_t ranks = *rc::gen::inRange(1, 5);
  // The context holds everything: a single pack, of 4 slices or, on 3 ranks, of 6.
  const std::int64_t count = ranks == 3 ? 6 : 4;
  const Tokens all = total_tokens(lengths);
  const BaselinePlan made =
      made_by("slimpipe", job_of(testing::one_layer_each(ranks), 1, all), lengths, cost);
  const auto& forward = made.plan.replicas.front().packs.forward;
  RC_ASSERT(std::ssize(forward) == std::min(count, all.count()));
  for (const MicroPack& pack : forward) {
    RC_ASSERT(pack.tokens() * count >= all - Tokens(count - 1));
    RC_ASSERT(pack.tokens() * count <= all + Tokens(count - 1));
  }
}

TEST(SlimPipeBaseline, PacksTailsWithShortSequencesAndLeavesFullSlicesAlone) {
  // 40 tokens in 4 slices: 10 each. Sequence 0 leaves a tail of 5 tokens, 2 one of 2, and 1 none.
  // Tails and the short sequences, of 10, 7, 6 and 3, have 33 tokens: four packs or more. Two of
  // them begin with the tails of 5 and 2. The empty ones get 10 and 7. Only the tail of 2 leaves
  // room for 6. The packs of 7 and of the tail of 5 have room for 3. The former has less work: 28
  // pairs against 15 + 5 · 20 behind a prefix of 20, for two tokens more.
  const SequenceLengths lengths = tokens({25, 20, 12, 7, 6, 3, 10});
  const Costs cost = testing::round_cost();
  const Job job = job_of(testing::one_layer_each(2), 1, Tokens(40));
  const BaselinePlan made = made_by("slimpipe", job, lengths, cost, {.slices = 4, .tails = true});
  const MicroPack a{{slice(0, 0, 10)}}, b{{slice(0, 10, 20)}}, c{{slice(0, 20, 25)}};
  const MicroPack d{{slice(1, 0, 10)}}, e{{slice(1, 10, 20)}};
  const MicroPack f{{slice(2, 0, 10)}}, g{{slice(2, 10, 12), slice(4, 0, 6)}};
  const MicroPack h{{slice(6, 0, 10)}}, i{{slice(3, 0, 7), slice(5, 0, 3)}};
  const PackPlan& packs = made.plan.replicas.front().packs;
  EXPECT_EQ(packs.forward, (std::vector<MicroPack>{a, b, c, d, e, f, g, h, i}));
  EXPECT_EQ(packs.backward, (std::vector<MicroPack>{c, b, a, e, d, g, f, h, i}));
}

TEST(SlimPipeBaseline, BeginsAgainWithAPackMoreWhereAShortSequenceFindsNoRoom) {
  // Slices of 10 tokens, and 20 tokens in all. In two packs: 7 and 3 + 3 + 3, as 3 + 3 is less work
  // than 7; then 7 + 2, and no room for the other 2. In three: 7, 3 + 3 and 3; both 2 join the 3.
  const Costs cost = testing::round_cost();
  const Job job = job_of(testing::one_layer_each(2), 1, Tokens(40));
  const BaselinePlan made =
      made_by("slimpipe", job, tokens({7, 3, 3, 3, 2, 2}), cost, {.slices = 4, .tails = true});
  EXPECT_EQ(testing::members(made.plan.replicas.front().packs.forward),
            (std::vector<std::vector<int>>{{0}, {1, 3}, {2, 4, 5}}));
}

RC_GTEST_PROP(SlimPipeBaseline, OrdersOfPackedTailsAreCorrectWithOneStageARankAndWithTwo, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 80))));
  Costs cost = testing::round_cost();
  cost.shape.set_layers(8);
  const std::int32_t ranks = *rc::gen::inRange(2, 5);
  const std::int32_t stages_per_rank = *rc::gen::inRange(1, 3);
  const StageLayout layout = layout_of(ranks, stages_per_rank);
  const Tokens context(*rc::gen::inRange<std::int64_t>(80, 200));
  const std::int32_t slices = ranks * *rc::gen::inRange(1, 9);
  const BaselinePlan made =
      made_by("slimpipe", job_of(layout, *rc::gen::inRange(1, 4), context), lengths, cost,
              {.slices = slices, .tails = *rc::gen::arbitrary<bool>()});
  RC_ASSERT(check_plan(made.plan).empty());
  for (const ReplicaPlan& replica : made.plan.replicas) {
    const Schedule order = sliced_one_f_one_b(replica.packs, ranks, 2, stages_per_rank);
    RC_ASSERT(check_schedule(replica.packs, order).empty());
  }
}

RC_GTEST_PROP(SlimPipeBaseline, APackHasATailAtMostAndNoMoreThanASlice, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 80))));
  const Costs cost = testing::round_cost();
  const std::int64_t context = *rc::gen::inRange<std::int64_t>(80, 200);
  const std::int32_t slices = 2 * *rc::gen::inRange(1, 9);
  const Tokens full((context + slices - 1) / slices);
  const BaselinePlan made =
      made_by("slimpipe", job_of(testing::one_layer_each(2), 1, Tokens(context)), lengths, cost,
              {.slices = slices, .tails = true});
  for (const MicroPack& pack : made.plan.replicas.front().packs.forward) {
    RC_ASSERT(pack.tokens() <= full);
    RC_ASSERT(std::ranges::count_if(pack.slices,
                                    [](const Slice& s) { return s.begin > Tokens(0); }) <= 1);
    for (const Slice& s : pack.slices)
      RC_ASSERT(s.end == lengths[s.sequence.index()] || s.length() == full);
  }
}

RC_GTEST_PROP(Seq1F1BBaseline, SlicesOfAPackAreOfEqualFlopsUpToTwoTokens, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 600))));
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(*rc::gen::inRange(1, 5));
  const Tokens all = total_tokens(lengths);
  const BaselinePlan made = made_by("seq1f1b", job_of(layout, 1, all), lengths, cost);
  EXPECT_EQ(made.ahead_per_stage, 1);
  const auto& forward = made.plan.replicas.front().packs.forward;
  double total = 0;
  for (const MicroPack& pack : forward) total += flops_time(pack, cost, layout);
  // Each cut is at most one token late: the dearest is the longest sequence's last.
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  const double token = flops_time({{{SequenceId(), longest - Tokens(1), longest}}}, cost, layout);
  RC_PRE(total > 8 * token);
  RC_ASSERT(forward.size() == 4u);
  for (const MicroPack& pack : forward)
    RC_ASSERT(std::abs(flops_time(pack, cost, layout) - total / 4) <= token * 1.0001);
}

TEST(Seq1F1BBaseline, CutsASequenceIntoShorterAndShorterSlices) {
  const SequenceLengths lengths = tokens({4000});
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(4);
  const BaselinePlan made = made_by("seq1f1b", job_of(layout, 1, Tokens(4000)), lengths, cost);
  const auto& forward = made.plan.replicas.front().packs.forward;
  ASSERT_EQ(forward.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LT(forward[i].tokens(), forward[i - 1].tokens());
}

}  // namespace
}  // namespace slimpack
