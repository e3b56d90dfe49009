#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "slimpack/baselines/makers.h"
#include "tests/baselines/cases.h"

namespace slimpack {
namespace {

using testing::job_of;
using testing::made_by;
using testing::tokens;

/// Forward time of a MicroPack's tokens and pairs over all stages.
double flops_time(const MicroPack& pack, const RecomputingCosts& cost, const StageLayout& layout) {
  double time = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s) {
    const PackCost terms = stage_cost(cost, layout, StageId(s), Pass::kForward);
    for (const Slice& slice : pack.slices)
      time += terms.per_token * static_cast<double>(slice.length().count()) +
              terms.per_pair * slice.causal_pairs();
  }
  return time;
}

TEST(UniformSlices, CutsEveryPackIntoEqualTokensAndRunsItsSlicesBackInReverse) {
  // Context 100, 2 stages: packs of 90 + 10 and of 40; 4 slices each, 25 and 10 tokens.
  const SequenceLengths lengths = tokens({90, 10, 40});
  const RecomputingCosts cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const BaselinePlan made =
      made_by("uniform-slices", job_of(layout, 1, Tokens(100)), lengths, cost);
  EXPECT_EQ(made.discipline, Discipline::kSlicedOneFOneB);
  EXPECT_EQ(made.ahead_per_stage, 2);
  const auto slice = [](int sequence, std::int64_t begin, std::int64_t end) {
    return Slice{SequenceId(sequence), Tokens(begin), Tokens(end)};
  };
  const MicroPack a{{slice(0, 0, 25)}}, b{{slice(0, 25, 50)}}, c{{slice(0, 50, 75)}},
      d{{slice(0, 75, 90), slice(1, 0, 10)}};
  const MicroPack e{{slice(2, 0, 10)}}, f{{slice(2, 10, 20)}}, g{{slice(2, 20, 30)}},
      h{{slice(2, 30, 40)}};
  const PackPlan& packs = made.plan.replicas.front().packs;
  EXPECT_EQ(packs.forward, (std::vector<MicroPack>{a, b, c, d, e, f, g, h}));
  EXPECT_EQ(packs.backward, (std::vector<MicroPack>{d, c, b, a, h, g, f, e}));
}

RC_GTEST_PROP(UniformSlices, SlicesOfAPackDifferByOneTokenAtMost, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 60))));
  const RecomputingCosts cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(*rc::gen::inRange(1, 5));
  // The context holds everything: a single pack of 4 slices.
  const Tokens all = total_tokens(lengths);
  const BaselinePlan made = made_by("uniform-slices", job_of(layout, 1, all), lengths, cost);
  const auto& forward = made.plan.replicas.front().packs.forward;
  RC_ASSERT(forward.size() == std::min<std::size_t>(4, static_cast<std::size_t>(all.count())));
  for (const MicroPack& pack : forward) {
    RC_ASSERT(pack.tokens() * 4 >= all - Tokens(3));
    RC_ASSERT(pack.tokens() * 4 <= all + Tokens(3));
  }
}

RC_GTEST_PROP(Seq1F1BBaseline, SlicesOfAPackAreOfEqualFlopsUpToTwoTokens, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 600))));
  const RecomputingCosts cost = testing::round_cost();
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
  const RecomputingCosts cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(4);
  const BaselinePlan made = made_by("seq1f1b", job_of(layout, 1, Tokens(4000)), lengths, cost);
  const auto& forward = made.plan.replicas.front().packs.forward;
  ASSERT_EQ(forward.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LT(forward[i].tokens(), forward[i - 1].tokens());
}

}  // namespace
}  // namespace slimpack
