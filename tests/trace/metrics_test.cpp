#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

TEST(Metrics, OfTwoStagesAreThoseCountedByHand) {
  const TimelineMetrics m = metrics_of(two_stages());
  // From 100 to 200 ns. Either rank: 2 forwards of 10, 2 backwards of 20, optimizer 10 = 70.
  EXPECT_EQ(m.makespan, Nanos(100));
  ASSERT_EQ(m.ranks.size(), 2U);
  for (const RankMetrics& rank : m.ranks) {
    EXPECT_EQ(rank.forward, Nanos(20));
    EXPECT_EQ(rank.backward, Nanos(40));
    EXPECT_EQ(rank.optimizer, Nanos(10));
    EXPECT_EQ(rank.reduction, Nanos(0));
    EXPECT_EQ(rank.busy, Nanos(70));
  }
  EXPECT_EQ(m.ranks[0].waiting, Nanos(30));
  EXPECT_EQ(m.ranks[1].waiting, Nanos(10));
  EXPECT_EQ(m.ranks[0].peak_activation, Bytes(14));  // from the samples
  EXPECT_EQ(m.ranks[1].peak_activation, Bytes(9));
  EXPECT_DOUBLE_EQ(m.bubble_ratio, 0.3);  // 1 − 140 / (2 · 100)
  EXPECT_DOUBLE_EQ(m.worst_bubble, 0.3);
}

TEST(Metrics, WorstBubbleIsThatOfTheLeastBusyRank) {
  Timeline t = two_stages();
  t.spans.pop_back();  // rank 1 without its optimizer: busy 60 of 100
  const TimelineMetrics m = metrics_of(t);
  EXPECT_DOUBLE_EQ(m.bubble_ratio, 0.35);  // 1 − 130 / 200
  EXPECT_DOUBLE_EQ(m.worst_bubble, 0.4);
}

TEST(Metrics, ReductionsAreBusyAndWaitsForSendingAreNot) {
  Timeline t{.origin = "measured", .ranks = 1, .spans = {}, .memory = {}, .peak_activation = {}};
  t.spans = {span(0, SpanKind::kReduce, -1, 0, 30), span(0, SpanKind::kWaitSend, 2, 30, 40)};
  const TimelineMetrics m = metrics_of(t);
  EXPECT_EQ(m.ranks[0].busy, Nanos(30));
  EXPECT_EQ(m.ranks[0].reduction, Nanos(30));
  EXPECT_EQ(m.ranks[0].waiting, Nanos(10));
  EXPECT_DOUBLE_EQ(m.bubble_ratio, 0.25);
}

TEST(Metrics, StatedPeaksWinOverSamples) {
  Timeline t = two_stages();
  t.peak_activation = {Bytes(100), Bytes(50)};
  EXPECT_EQ(metrics_of(t).ranks[0].peak_activation, Bytes(100));
  EXPECT_EQ(metrics_of(t).ranks[1].peak_activation, Bytes(50));
}

TEST(Metrics, AnEmptyTimelineHasNoBubble) {
  const TimelineMetrics none = metrics_of(Timeline{});
  EXPECT_EQ(none.makespan, Nanos(0));
  EXPECT_EQ(none.bubble_ratio, 0.0);
  EXPECT_EQ(none.worst_bubble, 0.0);
  EXPECT_EQ(model_flops_utilization(Flops(1e9), none, 1e12), 0.0);
}

TEST(Metrics, UtilizationIsWorkOverWhatTheRanksCouldDo) {
  // 100 ns · 2 ranks · 1e12 FLOP/s = 200,000 FLOP could be done; 50,000 are model work.
  EXPECT_DOUBLE_EQ(model_flops_utilization(Flops(50'000), metrics_of(two_stages()), 1e12), 0.25);
  EXPECT_THROW((void)model_flops_utilization(Flops(1), metrics_of(two_stages()), 0), InternalError);
}

TEST(Metrics, BusyTimeOfManyRanksMayExceed64Bits) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 53;
  Timeline t;
  t.ranks = 2048;  // 2^11 of 2^53 ns are 2^64
  for (std::int32_t rank = 0; rank < t.ranks; ++rank)
    t.spans.push_back(span(rank, SpanKind::kForward, 0, 0, rank == 0 ? kLongest / 2 : kLongest));
  EXPECT_DOUBLE_EQ(metrics_of(t).bubble_ratio, 0.5 / 2048);
}

TEST(Metrics, SpansOutsideTheRanksAreABug) {
  Timeline t = two_stages();
  t.spans[0].rank = 2;
  EXPECT_THROW((void)metrics_of(t), InternalError);
  t.spans[0] = span(0, SpanKind::kForward, 0, 10, 9);
  EXPECT_THROW((void)metrics_of(t), InternalError);
}

RC_GTEST_PROP(Metrics, BusyAndWaitingFitIntoTheMakespan, ()) {
  const Timeline t = *any_timeline();
  const TimelineMetrics m = metrics_of(t);
  double mean = 0;
  for (const RankMetrics& rank : m.ranks) {
    RC_ASSERT(rank.busy + rank.waiting <= m.makespan);
    RC_ASSERT(rank.forward + rank.backward <= rank.busy);
    if (m.makespan > Nanos(0))
      mean += 1 - static_cast<double>(rank.busy.count()) / static_cast<double>(m.makespan.count());
  }
  RC_ASSERT(m.bubble_ratio >= 0);
  RC_ASSERT(m.bubble_ratio <= m.worst_bubble + 1e-12);
  RC_ASSERT(m.worst_bubble <= 1);
  if (t.ranks > 0) RC_ASSERT(std::abs(m.bubble_ratio - mean / t.ranks) < 1e-12);
}

}  // namespace
}  // namespace slimpack
