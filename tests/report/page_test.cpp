
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/report/page.h"
#include "slimpack/report/rivals.h"
#include "tests/report/report_steps.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

ReportSource measured_source() {
  ReportSource source{"runs/</script>", testing::planned_file(), std::nullopt, TrainingCurve()};
  source.measured = testing::measured_twice_as_long(source.plan);
  return source;
}

TEST(PageData, HasThePlanBesideWhatWasMeasured) {
  const ReportSource source = measured_source();
  int advanced = 0;
  const Json data = page_data(source, {"slimpack 1.2", [&] { ++advanced; }});
  EXPECT_EQ(advanced, page_work());
  EXPECT_EQ(data["format"], "slimpack-report");
  EXPECT_EQ(data["version"], 1);
  const SimulationResult predicted = predict(source.plan.step, source.plan.cost);
  EXPECT_EQ(data["timelines"]["predicted"]["makespan_ns"], predicted.makespan.count());
  EXPECT_EQ(data["timelines"]["measured"]["makespan_ns"], 2 * predicted.makespan.count());
  EXPECT_EQ(data["timelines"]["measured"]["bubble"].get<double>(),
            data["timelines"]["predicted"]["bubble"].get<double>());
  EXPECT_EQ(data["documents"][2], (Json{102, 7}));
  EXPECT_EQ(data["packs"]["plan"].size(), 2u);  // replicas
  // Everything took twice its time, so the longest action differs most.
  const Json& worst = data["errors"][0];
  EXPECT_EQ(worst["measured_ns"].get<std::int64_t>(),
            2 * worst["predicted_ns"].get<std::int64_t>());
  for (const Json& error : data["errors"]) EXPECT_LE(error["predicted_ns"], worst["predicted_ns"]);
}

TEST(PageData, OfAPlanAloneHasNoMeasurement) {
  ReportSource source = measured_source();
  source.measured.reset();
  source.curve.reset();
  const Json data = page_data(source, {"slimpack", {}});
  EXPECT_FALSE(data["timelines"].contains("measured"));
  for (const char* part : {"documents", "errors", "curve"}) EXPECT_TRUE(data[part].is_null());
  EXPECT_TRUE(data["loads"]["measured"].is_null());
}

TEST(PageData, RivalsAreThePlanAndEveryTunedBaseline) {
  const ReportSource source = measured_source();
  const Json rivals = page_data(source, {"slimpack", {}})["rivals"];
  ASSERT_EQ(rivals.size(), baselines().size() + 1);
  EXPECT_EQ(rivals[0]["planner"], "slimpack");
  EXPECT_EQ(rivals[0]["makespan_ns"], source.plan.step.prediction.makespan.count());
  for (std::size_t i = 0; i < baselines().size(); ++i) {
    const Baseline& baseline = baselines()[i];
    EXPECT_EQ(rivals[i + 1]["planner"], baseline.name);
    const testing::PlanRequest request{};
    Choices choices = request.choices();
    choices.recompute = source.limits().recompute;
    const Job job{.layout = source.plan.step.plan.layout,
                  .replicas = 2,
                  .memory_cap = source.limits().memory_cap,
                  .context = source.limits().context};
    const TunedStep tuned =
        tuned_baseline(baseline, {job, source.plan.step.plan.lengths, choices, source.plan.cost});
    EXPECT_EQ(rivals[i + 1]["makespan_ns"], tuned.step.prediction.makespan.count());
  }
}

TEST(Verdict, NamesTheFastestPlannerThatKeepsTheCap) {
  const auto row = [](const char* planner, std::int64_t makespan, std::int64_t peak) {
    ComparedPlanner compared{planner, PredictedFigures{}, "", Nanos(0)};
    compared.figures->makespan = Nanos(makespan);
    compared.figures->peak = Bytes(peak);
    return compared;
  };
  ReportSource source = measured_source();
  source.measured.reset();
  source.plan.limits->memory_cap = Bytes(10);
  std::vector<ComparedPlanner> rows{row("this plan", 1'000'000, 9), row("first", 1'300'000, 9),
                                    row("too large", 500'000, 11), row("second", 1'100'000, 10)};
  rows.front().figures->bubble = 0.25;
  rows.front().figures->mfu = 0.5;
  EXPECT_EQ(best_rival(rows, Bytes(10)), 3u);
  EXPECT_EQ(verdict_of(source, rows).headline,
            "1.10 × as fast as second, the fastest other planner within the memory cap");
  EXPECT_EQ(
      verdict_of(source, rows).figures,
      "Predicted: a step takes 1.0 ms; second takes 1.1 ms on the same ranks. Ranks wait 25.0% "
      "of the step; MFU 50.0%.");
  rows[3].figures->makespan = Nanos(1'004'000);  // 0.4%
  EXPECT_EQ(verdict_of(source, rows).headline,
            "As fast as second, the fastest other planner within the memory cap");
  rows[3].figures->makespan = Nanos(800'000);
  EXPECT_EQ(verdict_of(source, rows).headline,
            "25.0% slower than second, the fastest other planner within the memory cap");
  for (std::size_t i = 1; i < rows.size(); ++i) rows[i].figures->peak = Bytes(11);
  EXPECT_EQ(verdict_of(source, rows).headline, "No other planner keeps the memory cap");
}

TEST(Verdict, OfARunSaysWhatItsTurnsMeasured) {
  ReportSource source = measured_source();  // everything took twice its time
  const auto rows = rivals_of(
      source.plan, source.limits(), "slimpack", [] {}, nullptr);
  EXPECT_NE(verdict_of(source, rows).figures.find(", 100.0% longer than predicted"),
            std::string::npos);
  ComparedTurns turns;
  turns.own = {"slimpack", {Nanos(10), Nanos(20), Nanos(10)}, {0.1, 0.02, 0.04}, 0.1, Bytes(1)};
  turns.other = {"packed", {Nanos(15), Nanos(25), Nanos(15)}, {0.3, 0.2, 0.4}, 0.1, Bytes(1)};
  source.measured->compared = turns;
  // 1.5, 1.25 and 1.5.
  EXPECT_EQ(verdict_of(source, rows).headline, "1.50 × as fast as packed, measured by turns");
  EXPECT_EQ(verdict_of(source, rows).figures.substr(0, 76),
            "Ranks wait 4.0% of the step as planned, and 30.0% packed (medians of 3 runs)");
}

TEST(Page, HoldsItsDataAndNeedsNoNetwork) {
  const Json data = page_data(measured_source(), {"slimpack", {}});
  const std::string page = page_html(data);
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(opening) + opening.size();
  const std::size_t end = page.find("</script>", begin);
  EXPECT_EQ(Json::parse(page.substr(begin, end - begin)), data);  // though its name has "</script>"
  for (const char* loads : {"src=", "@import", "url(", "fetch(", "{{"})
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
}

}  // namespace
}  // namespace slimpack
