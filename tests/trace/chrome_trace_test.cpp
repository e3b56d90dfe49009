#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

using nlohmann::json;

/// The events of phase `ph` in file order.
std::vector<json> events(const json& trace, const char* ph) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == ph) found.push_back(event);
  return found;
}

json trace_of(const std::vector<Timeline>& timelines) {
  return json::parse(to_chrome_trace(timelines));
}

TEST(ChromeTrace, NamesProcessesAndThreads) {
  Timeline measured = two_stages();
  measured.origin = "measured";
  const std::vector<json> names = events(trace_of({two_stages(), measured}), "M");
  // Each process: its name and place, and name and place of its two ranks.
  ASSERT_EQ(names.size(), 12U);
  const json expected[] = {{{"name", "process_name"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 0},
                            {"args", {{"name", "predicted"}}}},
                           {{"name", "process_sort_index"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 0},
                            {"args", {{"sort_index", 0}}}},
                           {{"name", "thread_name"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 0},
                            {"args", {{"name", "rank 0: replica 0, stage 0"}}}},
                           {{"name", "thread_sort_index"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 0},
                            {"args", {{"sort_index", 0}}}},
                           {{"name", "thread_name"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 1},
                            {"args", {{"name", "rank 1: replica 0, stage 1"}}}},
                           {{"name", "thread_sort_index"},
                            {"ph", "M"},
                            {"pid", 0},
                            {"tid", 1},
                            {"args", {{"sort_index", 1}}}},
                           {{"name", "process_name"},
                            {"ph", "M"},
                            {"pid", 1},
                            {"tid", 0},
                            {"args", {{"name", "measured"}}}}};
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(names[i], expected[i]);
}

TEST(ChromeTrace, SpansAreCompleteEventsInMicroseconds) {
  const std::vector<json> spans = events(trace_of({two_stages()}), "X");
  ASSERT_EQ(spans.size(), two_stages().spans.size());
  const json second_forward{{"name", "F1"}, {"cat", "forward"},
                            {"ph", "X"},    {"ts", 0.11},
                            {"dur", 0.01},  {"pid", 0},
                            {"tid", 0},     {"args", {{"replica", 0}, {"stage", 0}, {"pack", 1}}}};
  EXPECT_EQ(spans[1], second_forward);
  const json waiting{{"name", "wait_receive"},
                     {"cat", "wait_receive"},
                     {"ph", "X"},
                     {"ts", 0.12},
                     {"dur", 0.02},
                     {"pid", 0},
                     {"tid", 0},
                     {"args", {{"replica", 0}, {"stage", 0}, {"pack", 0}}}};
  EXPECT_EQ(spans[2], waiting);
  EXPECT_EQ(spans[3].at("name"), "B0");
  const json optimizer{{"name", "optimizer"},
                       {"cat", "optimizer"},
                       {"ph", "X"},
                       {"ts", 0.19},
                       {"dur", 0.01},
                       {"pid", 0},
                       {"tid", 1},
                       {"args", {{"replica", 0}, {"stage", 1}}}};
  EXPECT_EQ(spans.back(), optimizer);
}

TEST(ChromeTrace, SpansSayWhatTheirMicroPackHolds) {
  const std::vector<PackTexts> texts{
      {.forward = {{"document 7 [0, 64)"}, {"document 7 [64, 80)", "document 2 [0, 9)"}},
       .backward = {{"document 2 [0, 9)"}, {"document 7 [0, 80)"}}}};
  const json trace = json::parse(to_chrome_trace({two_stages()}, texts));
  const std::vector<json> spans = events(trace, "X");
  // In the order of two_stages(): F0, F1, a wait, B0, a wait, B1, the optimizer.
  EXPECT_EQ(spans[0].at("args").at("slices"), json({"document 7 [0, 64)"}));
  EXPECT_EQ(spans[1].at("args").at("slices"), json({"document 7 [64, 80)", "document 2 [0, 9)"}));
  EXPECT_EQ(spans[3].at("args").at("slices"), json({"document 2 [0, 9)"}));
  EXPECT_EQ(spans[5].at("args").at("slices"), json({"document 7 [0, 80)"}));
  for (const std::size_t other : {2, 4, 6})
    EXPECT_FALSE(spans[other].at("args").contains("slices"));
}

TEST(ChromeTrace, NamesRanksByTheirPlaceInTheGrid) {
  Timeline grid;
  grid.ranks = 8;
  grid.replicas = 2;
  grid.tensor = 2;
  grid.spans = {span(5, SpanKind::kForward, 0, 0, 10)};
  grid.spans[0].stage = StageId(0);
  const json trace = trace_of({grid});
  // 5 = (1 · 2 stages + 0) · 2 + 1.
  EXPECT_EQ(events(trace, "M")[2 + 2 * 5].at("args").at("name"),
            "rank 5: replica 1, stage 0, tensor 1");
  EXPECT_EQ(events(trace, "X")[0].at("args"),
            json({{"replica", 1}, {"stage", 0}, {"tensor", 1}, {"pack", 0}}));
}

TEST(ChromeTrace, NamesAllStagesOfARank) {
  // Two replicas of two ranks with two stages each.
  Timeline grid;
  grid.ranks = 4;
  grid.replicas = 2;
  grid.spans = {span(3, SpanKind::kForward, 0, 0, 10), span(3, SpanKind::kForward, 1, 10, 20)};
  grid.spans[0].stage = StageId(3);
  grid.spans[1].stage = StageId(1);
  const json trace = trace_of({grid});
  EXPECT_EQ(events(trace, "M")[2 + 2 * 3].at("args").at("name"), "rank 3: replica 1, stages 1, 3");
  EXPECT_EQ(events(trace, "X")[0].at("args"), json({{"replica", 1}, {"stage", 3}, {"pack", 0}}));
}

TEST(Timeline, HasEachTensorParallelRankWhereAsked) {
  const Timeline both = with_tensor_ranks(two_stages(), 2);
  EXPECT_EQ(both.ranks, 4);
  EXPECT_EQ(both.tensor, 2);
  EXPECT_EQ(both.spans.size(), 2 * two_stages().spans.size());
  // Stage 1 becomes ranks 2 and 3, which do what rank 1 did.
  std::vector<Span> third;
  for (Span s : both.spans)
    if (s.rank == 3) s.rank = 1, third.push_back(s);
  std::vector<Span> second;
  for (const Span& s : two_stages().spans)
    if (s.rank == 1) second.push_back(s);
  EXPECT_EQ(third, second);
  EXPECT_EQ(metrics_of(both).bubble_ratio, metrics_of(two_stages()).bubble_ratio);
}

TEST(ChromeTrace, MemoryIsACounterPerRank) {
  const std::vector<json> counters = events(trace_of({two_stages()}), "C");
  ASSERT_EQ(counters.size(), 4U);
  const json last{
      {"name", "activations of rank 1"}, {"ph", "C"}, {"ts", 0.11}, {"pid", 0}, {"tid", 1},
      {"args", {{"bytes", 9}}}};
  EXPECT_EQ(counters.back(), last);
}

TEST(ChromeTrace, FlowsFollowEachPackDownAndBackUpThePipeline) {
  const json trace = trace_of({two_stages(), two_stages()});
  const std::vector<json> starts = events(trace, "s");
  const std::vector<json> ends = events(trace, "f");
  ASSERT_EQ(starts.size(), 8U);  // two passes of two packs, in either process
  ASSERT_EQ(ends.size(), 8U);
  // F0 ends on rank 0 at 110 ns, where it starts on rank 1; B0 starts on rank 0 at 140 ns.
  const json f0{{"name", "F0"}, {"cat", "flow"}, {"id", 0}, {"pid", 0},
                {"ph", "s"},    {"ts", 0.109},   {"tid", 0}};
  const json f0_arrives{{"name", "F0"}, {"cat", "flow"}, {"id", 0},    {"pid", 0},
                        {"ph", "f"},    {"bp", "e"},     {"ts", 0.11}, {"tid", 1}};
  EXPECT_EQ(starts[0], f0);
  EXPECT_EQ(ends[0], f0_arrives);
  EXPECT_EQ(starts[2].at("name"), "B0");
  EXPECT_EQ(starts[2].at("tid"), 1);
  EXPECT_EQ(ends[2].at("tid"), 0);
  EXPECT_EQ(ends[2].at("ts"), 0.14);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at("id"), i);
    EXPECT_EQ(ends[i].at("id"), i);
    EXPECT_EQ(starts[i].at("pid"), i / 4);
  }
}

TEST(ChromeTrace, FlowsStayInTheirReplicaAndWithTheirTensorParallelRank) {
  // Ranks 0 1 | 2 3 are the stages of one replica, 4 5 | 6 7 of the other; all run F0. Packs of
  // different replicas have nothing to do with each other, and here they overlap.
  Timeline grid;
  grid.ranks = 8;
  grid.replicas = 2;
  grid.tensor = 2;
  for (std::int32_t rank = 0; rank < grid.ranks; ++rank) {
    const std::int64_t start = 10 * (rank / 2 % 2) + rank;
    grid.spans.push_back(span(rank, SpanKind::kForward, 0, start, start + 10));
  }
  const json trace = trace_of({grid});
  std::map<int, int> arrows;
  const std::vector<json> starts = events(trace, "s"), ends = events(trace, "f");
  ASSERT_EQ(starts.size(), 4U);
  ASSERT_EQ(ends.size(), 4U);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].at("id"), ends[i].at("id"));
    EXPECT_LE(starts[i].at("ts").get<double>(), ends[i].at("ts").get<double>());
    arrows[starts[i].at("tid")] = ends[i].at("tid");
  }
  EXPECT_EQ(arrows, (std::map<int, int>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

TEST(ChromeTrace, CarriesTheMetricsOfEachTimeline) {
  Timeline stated = two_stages();
  stated.origin = "measured";
  stated.peak_activation = {Bytes(100), Bytes(50)};
  const json metrics = trace_of({two_stages(), stated}).at("otherData").at("timelines");
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0].at("origin"), "predicted");
  EXPECT_EQ(metrics[0].at("makespan_us"), 0.1);
  EXPECT_DOUBLE_EQ(metrics[0].at("bubble_ratio").get<double>(), 0.3);
  EXPECT_DOUBLE_EQ(metrics[0].at("worst_bubble").get<double>(), 0.3);
  const json rank0{{"busy_us", 0.07},
                   {"forward_us", 0.02},
                   {"backward_us", 0.04},
                   {"waiting_us", 0.03},
                   {"peak_activation_bytes", 14}};
  EXPECT_EQ(metrics[0].at("ranks")[0], rank0);
  EXPECT_EQ(metrics[1].at("ranks")[0].at("peak_activation_bytes"), 100);
}

TEST(ChromeTrace, NoTimelinesGiveAnEmptyTrace) {
  const json trace = trace_of({});
  EXPECT_EQ(trace.at("traceEvents"), json::array());
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
}

/// Every arrow must leave and reach a span that encloses its time, or viewers drop it.
RC_GTEST_PROP(ChromeTrace, ArrowsEndInsideSpansOfTheirPack, ()) {
  const json trace = trace_of({*any_timeline()});
  const std::vector<json> spans = events(trace, "X");
  // Input gradients go the way of whole backwards.
  const auto way_of = [](std::string name) {
    if (name.front() == 'I') name.front() = 'B';
    return name;
  };
  for (const char* ph : {"s", "f"})
    for (const json& arrow : events(trace, ph)) {
      bool enclosed = false;
      for (const json& x : spans)
        enclosed = enclosed || (way_of(x["name"]) == arrow["name"] && x["tid"] == arrow["tid"] &&
                                x["ts"] <= arrow["ts"] &&
                                arrow["ts"] <= x["ts"].get<double>() + x["dur"].get<double>());
      RC_ASSERT(enclosed);
    }
}

}  // namespace
}  // namespace slimpack
