#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "tests/trace/timelines.h"

namespace slimpack {
namespace {

using nlohmann::json;

std::string error_of(std::string_view text) {
  try {
    (void)timeline_from_json(text, "t.json");
    return "accepted";
  } catch (const InvalidInput& e) {
    return e.what();
  }
}

TEST(TimelineJson, IsCompactAndReadable) {
  Timeline t{.origin = "measured", .ranks = 1, .spans = {}, .memory = {}, .peak_activation = {}};
  t.spans = {span(0, SpanKind::kForward, 3, 5, 9), span(0, SpanKind::kForward, 3, 9, 11)};
  t.spans.back().stage = StageId(1);
  t.memory = {{0, Nanos(5), Bytes(64)}};
  t.peak_activation = {Bytes(64)};
  EXPECT_EQ(timeline_to_json(t),
            R"({"format":"slimpack-timeline","version":3,"origin":"measured","ranks":1,)"
            R"("replicas":1,"tensor":1,"spans":[[0,"forward",3,5,9],[0,"forward",3,9,11,1]],)"
            R"("memory":[[0,5,64]],"peak_activation":[64]})"
            "\n");
}

TEST(TimelineJson, EveryKindOfSpanSurvives) {
  Timeline t;
  t.ranks = 1;
  for (int kind = 0; kind < 6; ++kind)
    t.spans.push_back(span(0, static_cast<SpanKind>(kind), kind - 1, kind, kind + 1));
  EXPECT_EQ(timeline_from_json(timeline_to_json(t), "t"), t);
}

RC_GTEST_PROP(TimelineJson, RoundTrips, ()) {
  const Timeline t = *any_timeline();
  RC_ASSERT(timeline_from_json(timeline_to_json(t), "t") == t);
}

struct Bad {
  const char* pointer;  ///< what to replace in two_stages()
  json value;
  const char* message;
};

class BadTimeline : public testing::TestWithParam<Bad> {};

TEST_P(BadTimeline, IsRefusedNamingTheField) {
  json good = json::parse(timeline_to_json(two_stages()));
  ASSERT_EQ(error_of(good.dump()), "accepted");
  good[json::json_pointer(GetParam().pointer)] = GetParam().value;
  const std::string message = error_of(good.dump());
  EXPECT_EQ(message.rfind("t.json: ", 0), 0U) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const Bad kBad[] = {
    {"/format", "slimpack-plan", "expected \"slimpack-timeline\""},
    {"/version", 1, "version 1 is not known"},
    {"/origin", 3, "\"origin\" must be a string"},
    {"/ranks", -1, "\"ranks\" is -1"},
    {"/ranks", 1, "spans[7][0] is 1, allowed are 0 to 0"},
    {"/ranks", std::int64_t{1} << 40, "\"ranks\" is"},
    {"/replicas", 0, "\"replicas\" is 0"},
    {"/tensor", 0, "\"tensor\" is 0"},
    {"/tensor", 4, "2 ranks are no whole stages of replicas × tensor = 1 × 4"},
    {"/spans", json::object(), "\"spans\" must be an array"},
    {"/spans/0", 3, "spans[0] must be an array of 5 values"},
    {"/spans/0", json::array({0, "forward", 0, 100}), "spans[0] must be an array of 5 values"},
    {"/spans/0/0", 2, "spans[0][0] is 2"},
    {"/spans/1/1", "foward",
     "spans[1][1] is \"foward\", which is no span kind; did you mean "
     "\"forward\"?"},
    {"/spans/1/1", 0, "spans[1][1] must be a span kind"},
    {"/spans/1/2", -2, "spans[1][2] is -2"},
    {"/spans/1/3", 1.5, "spans[1][3] must be an integer"},
    {"/spans/1/3", -1, "spans[1][3] is -1"},
    {"/spans/1/4", 109, "spans[1][4] is 109, allowed are 110"},
    {"/spans/1/4", INT64_MAX, "spans[1][4]"},
    {"/spans/1/3", 109, "rank 0 has a forward from 109 ns while its forward lasts until 110 ns"},
    {"/memory/0", json::array(), "memory[0] must be an array of 3 values"},
    {"/memory/0/0", 2, "memory[0][0] is 2"},
    {"/memory/0/1", -1, "memory[0][1] is -1"},
    {"/memory/0/2", -1, "memory[0][2] is -1"},
    {"/peak_activation", json::array({1}), "peak_activation has 1 values for 2 ranks"},
    {"/peak_activation", json::array({1, "2"}), "peak_activation[1] must be an integer"},
    {"/peak_activation", nullptr, "must be an array"},
};

INSTANTIATE_TEST_SUITE_P(TimelineJson, BadTimeline, testing::ValuesIn(kBad));

TEST(TimelineJson, MissingFieldsAreNamed) {
  for (const char* key : {"format", "version", "origin", "ranks", "replicas", "tensor", "spans",
                          "memory", "peak_activation"}) {
    json text = json::parse(timeline_to_json(two_stages()));
    text.erase(key);
    EXPECT_EQ(error_of(text.dump()), fmt::format("t.json: field \"{}\" is missing", key));
  }
}

TEST(TimelineJson, TextThatIsNoTimelineIsRefused) {
  for (const char* text : {"", "[]", "{", "null", "{\"format\": 1e999}", "\xff"})
    EXPECT_EQ(error_of(text).rfind("t.json: ", 0), 0U) << text;
}

TEST(TimelineJson, SpansWithoutDurationDoNotOverlap) {
  Timeline t = two_stages();
  t.spans.push_back(span(0, SpanKind::kReduce, -1, 105, 105));
  EXPECT_EQ(timeline_from_json(timeline_to_json(t), "t"), t);
}

RC_GTEST_PROP(TimelineJson, DamagedTextIsReadOrRefusedButNeverFailsOtherwise, ()) {
  std::string text = timeline_to_json(two_stages());
  const int edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits; ++i) {
    const auto at = static_cast<std::size_t>(
        *rc::gen::inRange<std::int64_t>(0, static_cast<std::int64_t>(text.size())));
    text[at] = *rc::gen::element('"', '[', ']', '{', ',', '0', '9', '-', 'e', '.', '\xff');
  }
  try {
    RC_ASSERT(metrics_of(timeline_from_json(text, "fuzz")).bubble_ratio >= 0);
  } catch (const InvalidInput& e) {
    RC_ASSERT(std::string_view(e.what()).starts_with("fuzz"));
  }
}

}  // namespace
}  // namespace slimpack
