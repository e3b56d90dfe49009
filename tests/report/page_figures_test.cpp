#include "slimpack/report/page_parts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/small_step.h"
#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

TEST(LargestErrors, ComeFirst) {
  const Timeline predicted = two_stages();
  Timeline measured = predicted;
  measured.spans[1].end += Nanos(4);    // F1 of rank 0: 14 instead of 10
  measured.spans[9].start += Nanos(9);  // B0 of rank 1: 11 instead of 20
  measured.spans[2].end += Nanos(50);   // a wait is no action
  const Json errors = largest_errors(predicted, measured, 2);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0], (Json{{"rank", 1},
                             {"kind", static_cast<int>(SpanKind::kBackward)},
                             {"stage", 1},
                             {"pack", 0},
                             {"predicted_ns", 20},
                             {"measured_ns", 11}}));
  EXPECT_EQ(errors[1]["measured_ns"], 14);
  EXPECT_EQ(errors[1]["pack"], 1);
}

TEST(LargestErrors, LeaveOutWhatOnlyOneTimelineHas) {
  const Timeline predicted = two_stages();
  Timeline measured = predicted;
  measured.spans[0].pack = PackId(5);
  // 13 spans, of which 3 are waits and one is unknown to the prediction.
  EXPECT_EQ(largest_errors(predicted, measured, 100).size(), 9u);
}

TEST(PageLengths, CountSequencesTokensAndSquares) {
  // 3 and 2 tokens are in the bin of 2 to 3, 8 tokens in that of 8 to 15; 4 to 7 is empty.
  const Json bins = lengths_for_page({Tokens(3), Tokens(8), Tokens(2)});
  ASSERT_EQ(bins.size(), 3u);
  EXPECT_EQ(bins[0]["high"], 3);
  EXPECT_EQ(bins[2]["low"], 8);
  EXPECT_EQ(bins[2]["high"], 8);  // nothing is longer
  EXPECT_EQ(bins[0]["count"], 2);
  EXPECT_EQ(bins[1]["count"], 0);
  EXPECT_NEAR(bins[2]["token_share"].get<double>(), 8.0 / 13, 1e-12);
  EXPECT_NEAR(bins[2]["attention_share"].get<double>(), 64.0 / (9 + 64 + 4), 1e-12);
}

TEST(PageCurve, HasTheStepsAndTheEvaluations) {
  const TrainingCurve curve{{{1, 5.5, 100, Nanos(7), Nanos(8)}, {2, 5.25, 110, Nanos(6), Nanos(8)}},
                            {{0, 5.75}, {2, 4.5, "code"}}};
  EXPECT_EQ(curve_for_page(curve, 10), (Json{{"step", {1, 2}},
                                             {"loss", {5.5, 5.25}},
                                             {"tokens_per_second", {100.0, 110.0}},
                                             {"step_ns", {7, 6}},
                                             {"predicted_ns", {8, 8}},
                                             {"evaluated_step", Json::array({0, 2})},
                                             {"evaluation_loss", Json::array({5.75, 4.5})},
                                             {"evaluation_name", Json::array({"", "code"})}}));
}

TEST(PagePacks, HaveEverySliceOfThePlan) {
  Rng rng(3);
  const Costs cost = testing::small_cost(1);
  const PlanOutcome outcome = plan_step(testing::random_request(rng), cost);
  ASSERT_TRUE(outcome.step);
  const StepPlan& plan = outcome.step->plan;
  const Json page = packs_for_page(plan);
  for (const char* pass : {"forward", "backward"}) {
    std::vector<std::int64_t> tokens(plan.lengths.size(), 0);  // every token is in one slice
    for (const Json& pack : page[0][pass])
      for (const Json& slice : pack)
        tokens[slice[0].get<std::size_t>()] +=
            slice[2].get<std::int64_t>() - slice[1].get<std::int64_t>();
    for (std::size_t q = 0; q < tokens.size(); ++q) EXPECT_EQ(tokens[q], plan.lengths[q].count());
  }
}

}  // namespace
}  // namespace slimpack
