#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

TEST(TimelineText, DrawsTwoStagesCellByCell) {
  // 10 cells of 10 ns over 100 to 200 ns; see the drawing at two_stages().
  EXPECT_EQ(to_text(two_stages(), 10),
            "rank 0 |FF..BB.BBO|\n"
            "rank 1 |.FBBFBB..O|\n");
}

TEST(TimelineText, ACellShowsWhatTookMostOfItIfItWasBusyForHalf) {
  // 5 cells of 20 ns. Rank 0: FF; waiting; BB; half waiting, half B; half B, half O: a tie, which
  // goes to the earlier letter. Rank 1: half waiting, half F; BB; F and B: tie, F; B and idle
  // half: B; idle and O: O.
  EXPECT_EQ(to_text(two_stages(), 5),
            "rank 0 |F.BBB|\n"
            "rank 1 |FBFBO|\n");
}

TEST(TimelineText, ALittleWorkInACellIsIdle) {
  Timeline t{.origin = "", .ranks = 1, .spans = {}, .memory = {}, .peak_activation = {}};
  t.spans = {span(0, SpanKind::kForward, 0, 0, 4), span(0, SpanKind::kReduce, -1, 10, 20)};
  EXPECT_EQ(to_text(t, 2), "rank 0 |.R|\n");
}

TEST(TimelineText, AnEmptyTimelineHasIdleRows) {
  EXPECT_EQ(to_text(Timeline{}, 4), "");
  Timeline idle;
  idle.ranks = 11;
  const std::string text = to_text(idle, 3);
  EXPECT_EQ(text.substr(0, 14), "rank  0 |...|\n");
  EXPECT_EQ(text.substr(text.size() - 14), "rank 10 |...|\n");
}

RC_GTEST_PROP(TimelineText, EveryRowHasTheWidthAskedFor, ()) {
  const Timeline t = *any_timeline();
  const int width = *rc::gen::inRange(1, 200);
  const std::string text = to_text(t, width);
  RC_ASSERT(std::ranges::count(text, '\n') == t.ranks);
  RC_ASSERT(text.size() == static_cast<std::size_t>(t.ranks * (width + 10)));  // "rank 0 |" "|\n"
}

}  // namespace
}  // namespace slimpack
