#include "slimpack/report/timeline_picture.h"

#include <gtest/gtest.h>

#include <array>
#include <regex>
#include <string>
#include <vector>

#include "slimpack/report/span_style.h"
#include "slimpack/trace/timeline.h"
#include "tests/report/report_steps.h"
#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

/// A box of a picture.
struct Box {
  double x, y, width;
};

std::vector<Box> boxes_of(const std::string& svg, SpanKind kind) {
  const std::regex pattern(
      "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"18\" fill=\"" +
      std::string(style_of(kind).colour) + "\">");
  std::vector<Box> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at)
    boxes.push_back({std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3])});
  return boxes;
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t times = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++times;
  return times;
}

TEST(TimelinePicture, ABoxIsAsWideAsItsTimeOnOneAxisForAll) {
  Timeline longer = two_stages();  // 100 ns; the last optimizer ends 100 ns later: 200 ns in all
  longer.spans[6].end += Nanos(100);
  const std::array timelines{PicturedTimeline{"one", two_stages()},
                             PicturedTimeline{"two", longer}};
  const std::string svg = timelines_svg(timelines);
  const std::vector<Box> forwards = boxes_of(svg, SpanKind::kForward);
  const std::vector<Box> backwards = boxes_of(svg, SpanKind::kBackward);
  ASSERT_EQ(forwards.size(), 8u);  // two packs on two ranks in two timelines
  ASSERT_EQ(backwards.size(), 8u);
  // F0 and F1 of rank 0 follow each other, B0 of rank 0 begins 40 ns after F0 and is twice as long.
  const double ten = forwards[0].width;
  EXPECT_NEAR(forwards[1].x, forwards[0].x + ten, 0.02);
  EXPECT_NEAR(backwards[0].x, forwards[0].x + 4 * ten, 0.03);
  EXPECT_NEAR(backwards[0].width, 2 * ten, 0.02);
  // Both timelines have one scale, and the longer one, of 200 ns, ends at the right edge.
  EXPECT_EQ(forwards[0].x, forwards[4].x);
  EXPECT_EQ(forwards[0].width, forwards[4].width);
  EXPECT_NEAR(forwards[0].x + 20 * ten, 960, 0.1);
  EXPECT_LT(forwards[0].y, forwards[2].y);  // rank 1 below rank 0
  EXPECT_LT(forwards[2].y, forwards[4].y);  // the second timeline below the first
}

TEST(TimelinePicture, TitlesAndLegendSayWhatIsDrawn) {
  const std::array timelines{PicturedTimeline{"a < b & c", two_stages()}};
  const std::string svg = timelines_svg(timelines);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_NE(svg.find("100 ns, 30.0% bubble"), std::string::npos);  // 70 + 70 of 200 ns are busy
  EXPECT_NE(svg.find(">stage 1</text>"), std::string::npos);
  EXPECT_NE(svg.find(">optimizer</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">reduction</text>"), std::string::npos);
}

TEST(TimelinePicture, ALargeOneHasItsFirstRanks) {
  Timeline timeline;
  timeline.ranks = 100;
  for (std::int32_t rank = 0; rank < 100; ++rank)
    timeline.spans.push_back(span(rank, SpanKind::kForward, 0, 0, 10));
  const std::array timelines{PicturedTimeline{"many", timeline}};
  const std::string svg = timelines_svg(timelines);
  EXPECT_EQ(boxes_of(svg, SpanKind::kForward).size(), 64u);
  EXPECT_NE(svg.find("(first 64 of 100 ranks)"), std::string::npos);
}

TEST(TimelinePicture, AnEmptyTimelineIsDrawn) {
  Timeline timeline;
  timeline.ranks = 1;
  const std::array timelines{PicturedTimeline{"nothing", timeline}};
  EXPECT_NE(timelines_svg(timelines).find("</svg>"), std::string::npos);
}

TEST(StepPicture, HasPackedAboveAndThePlanBelow) {
  const PlanFile file = testing::planned_file();
  const std::string svg = step_svg(file, *file.limits);
  EXPECT_LT(svg.find("packed as usual"), svg.find("as planned"));
  // A title for each box: every pass of every MicroPack on both stages of the two plans.
  std::size_t forwards = 0;
  for (const ReplicaPlan& replica : file.step.plan.replicas)
    forwards += 2 * replica.packs.forward.size();
  EXPECT_GT(count(svg, "<title>forward "), forwards);
}

}  // namespace
}  // namespace slimpack
