#include "slimpack/report/sweep_report.h"

#include <gtest/gtest.h>

#include "slimpack/job/sweep_axes.h"
#include "tests/report/made_up_sweep.h"

namespace slimpack {
namespace {

using testing::figures;
using testing::made_up;
using testing::packs;

/// Three stages of one layer. Tokens cost 15.625 ns in each pass, MicroPacks 500 ns, all else
/// nothing.
Costs priced_packs() {
  Costs cost;
  cost.origin.source = "made up";
  cost.shape.kinds = {{.hidden_size = 8,
                       .num_heads = 1,
                       .num_kv_heads = 1,
                       .head_dim = 8,
                       .value_dim = 8,
                       .dense_width = 8}};
  cost.shape.set_layers(3);
  cost.shape.vocab_size = 8;
  cost.shape.max_positions = Tokens(1 << 20);
  for (PackCost* pass : {&cost.kinds.front().forward, &cost.kinds.front().backward}) {
    pass->per_token = 15.625;
    pass->per_pack = 500;
  }
  return cost;
}

/// Plans 64 sequences of 64 tokens with so many equal MicroPacks.
SweepFigures planned(const Costs& cost, const std::string& number) {
  const SequenceLengths lengths(64, Tokens(64));
  const std::vector<std::string> over{"packs=" + number, "taper=1", "order=0"};
  Choices choices;
  choices.granularity = Tokens(64);
  for (const SweepAxis& axis : sweep_axes(over)) keep_to(choices.search, axis, axis.values.front());
  const Job job{.layout = {{0, 1, 2, 3}}, .context = Tokens(64)};
  return sweep_figures(*plan_step({job, lengths, choices, cost}).step, cost);
}

// A stage works 128,000 ns on 4,096 tokens in both passes, and 1,000 ns on each of M MicroPacks
// beside that. Three stages take (M + 2) · (128,000 / M + 1,000) ns: M MicroPacks one after the
// other on one stage, and two more before and after it. With M = 4, 8, 16, 32 and 64 that is 198,
// 170, 162, 170 and 198 µs: the least at √(2 · 128) = 16.
TEST(SweepTurns, FindWhereMicroPacksCostMoreThanTheyFill) {
  const Costs cost = priced_packs();
  SweepReport report{{packs({"4", "8", "16", "32", "64"})}, {}};
  for (std::size_t v = 0; v < 5; ++v)
    report.points.push_back({{v}, planned(cost, report.axes[0].values[v]), ""});
  const std::int64_t expected[] = {198'000, 170'000, 162'000, 170'000, 198'000};
  for (std::size_t v = 0; v < 5; ++v) {
    const double number = std::stod(report.axes[0].values[v]);
    const SweepFigures& f = *report.points[v].figures;
    EXPECT_EQ(f.predicted.makespan, Nanos(expected[v])) << number;
    EXPECT_NEAR(f.overhead, number / (128 + number), 1e-6) << number;
    EXPECT_NEAR(f.predicted.bubble, 2 / (number + 2), 1e-6) << number;
  }
  const auto turns = sweep_turns(report);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].best, 2u);
  EXPECT_EQ(turns[0].longer, 3u);
  EXPECT_TRUE(turns[0].too_small(report));
  // With 16: 16/144 of the busy time and 2/18. With 32: 32/160 and 2/34. A rank's MicroPacks cost
  // 16 µs and 32 µs, and it waits 162 − 144 = 18 µs and 170 − 160 = 10 µs.
  EXPECT_EQ(
      turn_text(report, turns[0]),
      "packs: the step is shortest with 16, and MicroPacks are too small from 32 on. With 32 it "
      "takes 4.9% longer: what MicroPacks and slices cost by themselves grows by 16.0 µs a "
      "rank (from 11.1% to 20.0% of busy time), and waiting falls by 8.0 µs a rank (from "
      "11.1% to 5.9% bubble).");
}

TEST(SweepTurns, PartsAddUpToTheStep) {
  const StepParts parts = parts_of(figures(1000, 0.25, 0.4));
  EXPECT_DOUBLE_EQ(parts.waiting, 250);
  EXPECT_DOUBLE_EQ(parts.overhead, 300);  // 40% of 750
  EXPECT_DOUBLE_EQ(parts.work, 450);
}

TEST(SweepTurns, GoFromCoarseToFineInWhateverOrderValuesAreGiven) {
  const auto report =
      made_up({packs({"16", "4", "8"})}, {figures(120), figures(110), figures(100)});
  const auto turns = sweep_turns(report);
  EXPECT_EQ(turns.at(0).best, 2u);
  EXPECT_EQ(turns.at(0).longer, 0u);
  SweepAxis granularity{"granularity", "tokens", {"32", "64", "128"}, Finer::kLower};
  const auto lower = made_up({granularity}, {figures(120), figures(100), figures(110)});
  EXPECT_EQ(sweep_turns(lower).at(0).best, 1u);
  EXPECT_EQ(sweep_turns(lower).at(0).longer, 0u);
}

TEST(SweepTurns, AreWhereAllFinerStepsAreLonger) {
  // 32 is longer than 16, but 64 is as short again.
  const auto report = made_up({packs({"16", "32", "64", "128"})},
                              {figures(100), figures(150), figures(100), figures(130)});
  EXPECT_EQ(sweep_turns(report).at(0).longer, 3u);
}

TEST(SweepTurns, DoNotBlameSlicesForWaiting) {
  const auto report = made_up({packs({"8", "16"})}, {figures(100, 0.1), figures(120, 0.25)});
  const auto turn = sweep_turns(report).at(0);
  EXPECT_FALSE(turn.too_small(report));  // busy 90 and 90, waiting 10 and 30
  EXPECT_NE(turn_text(report, turn).find("longer from 16 on, where ranks wait more. With 16"),
            std::string::npos);
}

TEST(SweepTurns, CountTimesWhereAPercentageWouldBeLarge) {
  const auto report = made_up({packs({"8", "16"})}, {figures(100), figures(310)});
  EXPECT_NE(turn_text(report, sweep_turns(report).at(0)).find("it takes 3.1 times as long: "),
            std::string::npos);
}

TEST(SweepTurns, SayWhenSlicesAreNotTooSmallYet) {
  const auto finest = made_up({packs({"8", "16"})}, {figures(120), figures(100)});
  EXPECT_EQ(turn_text(finest, sweep_turns(finest).at(0)),
            "packs: the step is shortest with 16, the finest that was tried. No MicroPacks are "
            "too small yet.");
  const auto alike = made_up({packs({"8", "16"})}, {figures(100'000), figures(100'050)});
  EXPECT_EQ(turn_text(alike, sweep_turns(alike).at(0)),
            "packs: the step is shortest with 8. Finer makes no notable difference.");
}

TEST(SweepTurns, NeedALargerDifferenceOfMeasuredSteps) {
  auto report = made_up({packs({"8", "16", "32"})}, {figures(1), figures(1), figures(1)});
  const std::int64_t measured[] = {1000, 1040, 1060};
  for (std::size_t p = 0; p < 3; ++p)
    report.points[p].figures->measured = {Nanos(measured[p]), 0.1, Bytes(1)};
  EXPECT_EQ(sweep_turns(report).at(0).longer, 2u);  // by 6%; 4% may be chance
}

TEST(SweepTurns, AreThoseOfEachLineAndSkipWhatDoesNotFit) {
  const SweepAxis pp{"pp", "", {"2", "4"}};
  const auto report = made_up({packs({"8", "16", "32"}), pp}, {figures(100), std::nullopt,  //
                                                               figures(110), figures(80),   //
                                                               std::nullopt, figures(90)});
  const auto turns = sweep_turns(report);
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[0].best, 0u);
  EXPECT_EQ(turns[0].longer, 2u);
  EXPECT_EQ(turns[1].best, 3u);
  EXPECT_EQ(turns[1].longer, 5u);
  EXPECT_EQ(turn_text(report, turns[1]).substr(0, 13), "packs (pp 4):");
  // A line of one point has no turn.
  EXPECT_TRUE(sweep_turns(made_up({packs({"8", "16"})}, {figures(1), std::nullopt})).empty());
}

}  // namespace
}  // namespace slimpack
