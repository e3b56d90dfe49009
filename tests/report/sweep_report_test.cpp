#include "slimpack/report/sweep_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "slimpack/base/table.h"
#include "tests/report/made_up_sweep.h"

namespace slimpack {
namespace {

using testing::figures;
using testing::made_up;
using testing::packs;

/// The second point is the best; the last does not fit.
SweepReport two_axes() {
  return made_up({packs({"8", "16"}), {"recompute", "", {"nothing", "full"}}},
                 {figures(200), figures(100), figures(150), std::nullopt});
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

TEST(SweepReport, TheBestTrainsTheMostTokensPerSecond) {
  SweepReport report = two_axes();
  EXPECT_EQ(report.best(), 1u);
  EXPECT_DOUBLE_EQ(report.times_best(report.points[2]), 1.5);
  report.points[0].figures->tokens = Tokens(2500);  // 12.5 tokens a nanosecond, not 10
  EXPECT_EQ(report.best(), 0u);
  EXPECT_DOUBLE_EQ(report.times_best(report.points[1]), 1.25);
  EXPECT_EQ(made_up({packs({"8"})}, {std::nullopt}).best(), std::nullopt);
}

// 1,000 tokens take 200 ns on 2 ranks and 150 ns on 4: 2.5 and 1.67 tokens a nanosecond and rank.
TEST(SweepReport, TheBestOfDifferentNumbersOfRanksTrainsTheMostOnEach) {
  SweepReport report = made_up({{"pp", "", {"2", "4"}}}, {figures(200), figures(150)});
  EXPECT_EQ(report.best(), 1u);
  EXPECT_EQ(sweep_text(report, 80).find("ranks"), std::string::npos);
  report.points[0].figures->ranks = 2;
  report.points[1].figures->ranks = 4;
  EXPECT_EQ(report.best(), 0u);
  EXPECT_DOUBLE_EQ(report.times_best(report.points[1]), 1.5);
  const std::string text = sweep_text(report, 80);
  EXPECT_LT(text.find("ranks"), text.find('\n'));
  EXPECT_NE(text.find("best: the most tokens per second of a rank"), std::string::npos) << text;
}

TEST(SweepReport, TheTableMarksTheBestAndSaysWhatDoesNotFit) {
  const std::string text = sweep_text(two_axes(), 80);
  std::istringstream lines(text);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  EXPECT_NE(rows[2].find("2.000"), std::string::npos) << text;
  EXPECT_NE(rows[3].find("best"), std::string::npos) << text;
  EXPECT_NE(rows[5].find("does not fit"), std::string::npos) << text;
  EXPECT_NE(text.find("packs 16, recompute full: needs more than there is"), std::string::npos);
  for (const std::string& row : rows) EXPECT_LE(text_width(row), 80u) << row;
  EXPECT_EQ(times_in(text, " best "), 2u) << text;  // one is the column's title
}

TEST(SweepReport, ManyPointsThatDoNotFitAreCounted) {
  const SweepReport report =
      made_up({packs({"1", "2", "3", "4", "5"})}, {5, std::optional<SweepFigures>()});
  const std::string text = sweep_text(report, 80);
  EXPECT_NE(text.find("… and 2 others that do not fit"), std::string::npos) << text;
}

TEST(SweepReport, JsonHasEveryFigure) {
  SweepReport report = two_axes();
  report.points[1].figures->measured = {Nanos(111), 0.25, Bytes(77)};
  report.points[0].figures->measured =
      report.points[2].figures->measured = {Nanos(300), 0.5, Bytes(88)};
  const nlohmann::json json = sweep_json(report);
  EXPECT_EQ(json["format"], "slimpack-sweep");
  EXPECT_EQ(json["best"], 1);
  EXPECT_EQ(json["axes"][1]["values"], (std::vector<std::string>{"nothing", "full"}));
  const nlohmann::json& best = json["points"][1];
  EXPECT_EQ(best["values"], (nlohmann::json{{"packs", "8"}, {"recompute", "full"}}));
  EXPECT_EQ(best["fits"], true);
  EXPECT_EQ(best["tokens"], 1000);
  EXPECT_EQ(best["ranks"], 1);
  EXPECT_EQ(best["makespan_ns"], 100);
  EXPECT_EQ(best["bubble"], 0.1);
  EXPECT_EQ(best["peak_bytes"], 1 << 20);
  EXPECT_EQ(best["measured_makespan_ns"], 111);
  EXPECT_EQ(best["measured_bubble"], 0.25);
  EXPECT_EQ(best["measured_peak_bytes"], 77);
  EXPECT_EQ(best["times_best"], 1);
  EXPECT_EQ(best["overhead"], 0.2);
  EXPECT_EQ(best["forward_packs"], 4);
  EXPECT_EQ(best["backward_packs"], 3);
  EXPECT_EQ(best["slices"], 12);
  EXPECT_EQ(json["points"][3]["fits"], false);
  EXPECT_EQ(json["points"][3]["why"], "needs more than there is");
  EXPECT_FALSE(json["points"][3].contains("makespan_ns"));
  ASSERT_EQ(json["turns"].size(), 1);  // with "full" one point fits
  EXPECT_EQ(json["turns"][0]["axis"], "packs");
  EXPECT_EQ(json["turns"][0]["best"], 0);  // as long as point 2, and coarser
  EXPECT_EQ(json["turns"][0]["longer"], nullptr);
}

TEST(SweepReport, CsvHasTheNumbersOfTheJson) {
  SweepReport report = two_axes();
  report.axes[1].values[0] = "a \"b\", c";
  const nlohmann::json json = sweep_json(report);
  std::istringstream csv(sweep_csv(report));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line,
            "packs,recompute,fits,tokens,makespan_ns,bubble,peak_bytes,times_best,overhead,"
            "ranks,forward_packs,backward_packs,slices,why");
  std::getline(csv, line);
  EXPECT_EQ(line, "8,\"a \"\"b\"\", c\",true,1000,200,0.1,1048576,2.0,0.2,1,4,3,12,");
  std::getline(csv, line);
  std::getline(csv, line);
  std::getline(csv, line);
  EXPECT_EQ(line, "16,full,false,,,,,,,,,,,needs more than there is");
  EXPECT_FALSE(std::getline(csv, line));
  EXPECT_EQ(json["points"][0]["times_best"], 2.0);
}

TEST(SweepReport, CsvOfPointsOfWhichNoneFitsHasNoFigures) {
  EXPECT_EQ(sweep_csv(made_up({packs({"8"})}, {std::nullopt})),
            "packs,fits,why\n8,false,needs more than there is\n");
}

TEST(SweepPicture, HasAPanelForEachFigureAndALineForEachValueOfTheSecondAxis) {
  const std::string svg = sweep_svg(two_axes(), "a < b & c");
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  for (const char* part : {"Step time (ns)", "Bubble (%)", "Overhead (% of busy time)",
                           "Peak activations of a rank (MiB)", "packs (MicroPacks of a pass)",
                           "prefers-color-scheme: dark"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(times_in(svg, "<path"), 4u * 2u);
  EXPECT_EQ(times_in(svg, "class=\"ring\""), 4u);  // the best, in each panel
  EXPECT_EQ(times_in(svg, ">×<"), 4u);             // what does not fit
  EXPECT_EQ(times_in(svg, "predicted\" stroke"), 0u);
  EXPECT_EQ(times_in(svg, "r=\"3\""), 4u * 3u);
}

TEST(SweepPicture, DrawsPredictionsBesideMeasurements) {
  SweepReport report = made_up({packs({"8", "16"})}, {figures(200), figures(100)});
  for (SweepPoint& point : report.points)
    point.figures->measured = {Nanos(150), 0.2, Bytes(1 << 20)};
  const std::string svg = sweep_svg(report, "measured");
  // Two lines in each panel; overhead is predicted only.
  EXPECT_EQ(times_in(svg, "<path"), 3u * 2u + 1u);
  EXPECT_EQ(times_in(svg, "class=\"curve predicted\""), 4u);
  EXPECT_NE(svg.find("solid: measured, dashed: predicted"), std::string::npos);
}

TEST(SweepPicture, ShowsOfFurtherAxesWhatTheBestPointHas) {
  const SweepReport report =
      made_up({packs({"8", "16"}), {"pp", "", {"2", "4"}}, {"cuts", "", {"any", "symmetric"}}},
              {figures(90), figures(80), figures(70), figures(60), figures(90), figures(80),
               figures(70), figures(65)});
  const std::string svg = sweep_svg(report, "three axes");
  EXPECT_NE(svg.find("cuts symmetric"), std::string::npos);
  EXPECT_EQ(times_in(svg, "r=\"3\""), 4u * 4u);
}

TEST(SweepPicture, CanBeOfPointsOfWhichNoneFits) {
  const std::string svg = sweep_svg(made_up({packs({"8"})}, {std::nullopt}), "none");
  EXPECT_EQ(times_in(svg, "<path"), 0u);
  EXPECT_EQ(times_in(svg, ">×<"), 4u);
}

}  // namespace
}  // namespace slimpack
