#include "slimpack/report/page_parts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/report/span_style.h"
#include "tests/planner/small_step.h"
#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

TEST(PageTimeline, ARowHasItsSpansInOrderWithTimesFromTheStart) {
  const Timeline timeline = two_stages();  // starts at 100 ns
  const Json page = timeline_for_page(timeline, timeline);
  EXPECT_EQ(page["makespan_ns"], 100);  // 100 to 200
  EXPECT_EQ(page["ranks"], 2);
  ASSERT_EQ(page["rows"].size(), 2u);
  const Json& first = page["rows"][0];
  EXPECT_EQ(first["label"], "stage 0");
  // F0 F1 wait B0 wait B1 O
  EXPECT_EQ(first["start"], (Json{0, 10, 20, 40, 60, 70, 90}));
  EXPECT_EQ(first["length"], (Json{10, 10, 20, 20, 10, 20, 10}));
  EXPECT_EQ(first["pack"], (Json{0, 1, 0, 0, 1, 1, -1}));
  EXPECT_EQ(first["stage"], (Json{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(first["kind"][3], static_cast<int>(SpanKind::kBackward));
  // Samples of rank 0 at 100, 110 and 160 ns: 7, 14 and 7 bytes.
  EXPECT_EQ(first["memory"], (Json{7, 14, 14, 14, 7, 7, 7}));
  // Waits are no work, so nothing is predicted for them.
  EXPECT_EQ(first["predicted"], (Json{10, 10, -1, 20, -1, 20, 10}));
  // Busy: 2 forwards, 2 backwards, optimizer = 70 of 100 ns.
  EXPECT_EQ(first["busy_ns"], 70);
  EXPECT_NEAR(first["bubble"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(first["peak_bytes"], 14);
  EXPECT_EQ(page["peak_bytes"], 14);
}

TEST(PageTimeline, WorkThatThePredictionLacksIsMarked) {
  const Timeline predicted = two_stages();
  Timeline lacking = predicted;
  lacking.spans.erase(lacking.spans.begin());  // F0 of rank 0
  const Json page = timeline_for_page(predicted, lacking);
  EXPECT_EQ(page["rows"][0]["predicted"][0], -1);
  EXPECT_EQ(page["rows"][0]["predicted"][1], 10);
}

TEST(PageTimeline, RowsNameReplicasStagesAndTensorRanks) {
  Timeline timeline;
  timeline.ranks = 8;
  timeline.replicas = 2;
  timeline.tensor = 2;
  EXPECT_EQ(rank_labels(timeline)[0], "replica 0 stage 0 tensor 0");
  EXPECT_EQ(rank_labels(timeline)[7], "replica 1 stage 1 tensor 1");
  // The second stage of a rank in a pipeline of two ranks is stage 2 of four.
  timeline.tensor = 1;
  timeline.replicas = 4;
  timeline.spans = {span(5, SpanKind::kForward, 0, 0, 10)};
  timeline.spans[0].stage = StageId(3);
  EXPECT_EQ(rank_labels(timeline)[5], "replica 2 rank 1");
  EXPECT_EQ(timeline_for_page(timeline, timeline)["rows"][5]["stage"], Json{3});
}

TEST(PageTimeline, OfATooLargeOneTheFirstRanksHaveSpansAndAllHaveFigures) {
  const Timeline timeline = two_stages();  // 7 and 6 spans
  const auto drawn = [&](std::size_t spans) {
    const Json page = timeline_for_page(timeline, timeline, {.spans = spans});
    EXPECT_EQ(page["rows"].size(), 2u);
    EXPECT_EQ(page["rows"][1]["label"], "stage 1");
    EXPECT_TRUE(page["rows"][1].contains("busy_ns"));
    return std::ranges::count_if(page["rows"],
                                 [](const Json& row) { return row.contains("start"); });
  };
  EXPECT_EQ(drawn(13), 2);
  EXPECT_EQ(drawn(12), 1);
  EXPECT_EQ(drawn(1), 1);  // one rank is always drawn
}

/// The bytes of a rank right after `moment`, read from the samples one by one.
std::int64_t naive_bytes(const Timeline& timeline, std::int32_t rank, Nanos moment) {
  std::int64_t bytes = 0;
  Nanos latest(-1);
  for (const MemorySample& sample : timeline.memory)
    if (sample.rank == rank && sample.time <= moment && sample.time >= latest) {
      latest = sample.time;
      bytes = sample.bytes.count();
    }
  return bytes;
}

TEST(PageMemory, IsTheFullestReplicasAtEveryMoment) {
  Timeline timeline;
  timeline.ranks = 4;
  timeline.replicas = 2;  // ranks 0 and 2 are the first of their pipelines
  timeline.memory = {{0, Nanos(0), Bytes(5)},  {2, Nanos(10), Bytes(9)}, {0, Nanos(20), Bytes(7)},
                     {2, Nanos(30), Bytes(1)}, {1, Nanos(20), Bytes(3)}, {0, Nanos(40), Bytes(0)}};
  const Json page = memory_for_page(timeline);
  EXPECT_EQ(page["time"], (Json{0, 10, 20, 30, 40}));
  // At 10 and 20 replica 1 has 9; at 30 replica 0 has 7; at 40 only replica 1's 1 is left.
  EXPECT_EQ(page["ranks"][0], (Json{5, 9, 9, 7, 1}));
  EXPECT_EQ(page["ranks"][1], (Json{0, 0, 3, 3, 3}));
}

TEST(PageMemory, ThinnedKeepsEveryPeak) {
  Timeline timeline;
  timeline.ranks = 1;
  for (int i = 0; i < 100; ++i)  // 1 byte, but 50 at 37 ns
    timeline.memory.push_back({0, Nanos(i), Bytes(i == 37 ? 50 : 1)});
  const Json page = memory_for_page(timeline, {.memory_times = 10});
  ASSERT_EQ(page["time"].size(), 10u);
  // Intervals of 9.9 ns: 37 lies in the fourth, which begins at 29.
  EXPECT_EQ(page["time"][3], 29);
  EXPECT_EQ(page["ranks"][0], (Json{1, 1, 1, 50, 1, 1, 1, 1, 1, 1}));
}

RC_GTEST_PROP(PageMemory, AgreesWithARecount, ()) {
  const Timeline timeline = *any_timeline();
  if (timeline.ranks == 0) return;
  const Json page = memory_for_page(timeline);
  for (std::size_t i = 0; i < page["time"].size(); ++i) {
    const Nanos moment = Nanos(page["time"][i].get<std::int64_t>()) + start_of(timeline);
    for (std::int32_t rank = 0; rank < timeline.ranks; ++rank)
      RC_ASSERT(page["ranks"][static_cast<std::size_t>(rank)][i] ==
                naive_bytes(timeline, rank, moment));
  }
}

TEST(PageLoads, ArePredictedTimesOfAllStages) {
  Rng rng(7);
  testing::PlanRequest request = testing::random_replicas(rng);
  request.dp = 2;
  const Costs cost = testing::small_cost(2);
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step);
  const Timeline timeline = predict(*outcome.step, cost).timeline;
  const Json page = loads_for_page(with_tensor_ranks(timeline, 3), outcome.step->plan);
  ASSERT_EQ(page.size(), 2u);
  const std::int32_t stages = timeline.ranks / 2;
  for (std::size_t r = 0; r < 2; ++r) {
    const PackPlan& packs = outcome.step->plan.replicas[r].packs;
    ASSERT_EQ(page[r]["forward"].size(), packs.forward.size());
    ASSERT_EQ(page[r]["backward"].size(), packs.backward.size());
    for (std::size_t p = 0; p < packs.backward.size(); ++p) {
      std::int64_t sum = 0;  // over the spans of this pack on this replica's ranks
      for (const Span& span : timeline.spans)
        if (span.rank / stages == static_cast<std::int32_t>(r) && span.pack == PackId(p) &&
            (span.kind == SpanKind::kBackward || span.kind == SpanKind::kInputGradient ||
             span.kind == SpanKind::kWeightGradient))
          sum += (span.end - span.start).count();
      EXPECT_EQ(page[r]["backward"][p], sum);
    }
  }
}

}  // namespace
}  // namespace slimpack
