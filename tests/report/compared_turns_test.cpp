#include "slimpack/report/compared_turns.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"
#include "slimpack/base/table.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

Nanos milliseconds(std::int64_t count) {
  return Nanos(count * 1'000'000);
}

ComparedTurns three_turns() {
  return {ClockKind::kVirtual,
          {"slimpack",
           {milliseconds(6900), milliseconds(6700), milliseconds(7100)},
           {0.02, 0.019, 0.023},
           0.018,
           Bytes(147 << 20)},
          {"packed",
           {milliseconds(8900), milliseconds(8700), milliseconds(9300)},
           {0.234, 0.231, 0.24},
           0.241,
           Bytes(206 << 20)}};
}

TEST(ComparedTurns, SetEachRunAgainstThatOfItsTurn) {
  // 8.9 ÷ 6.9 = 1.290, 8.7 ÷ 6.7 = 1.299, 9.3 ÷ 7.1 = 1.310.
  EXPECT_NEAR(three_turns().times_as_fast(), 1.299, 0.0005);
  // A machine that is half as fast in one turn slows both runs of the turn.
  ComparedTurns slowed = three_turns();
  slowed.own.step[2] = milliseconds(14200);
  slowed.other.step[2] = milliseconds(18600);
  EXPECT_DOUBLE_EQ(slowed.times_as_fast(), three_turns().times_as_fast());
}

constexpr const char* kAt80 =
    R"(                         bubble      spread   step     spread  peak activations
───────────────────────  ──────  ──────────  ─────  ─────────  ────────────────
last step again, sliced    2.0%    1.9–2.3%  6.9 s  6.7–7.1 s           147 MiB
last step again, packed   23.4%  23.1–24.0%  8.9 s  8.7–9.3 s           206 MiB
medians of 3 runs each, by turns, in virtual time (a core for every rank)

ranks wait 2.0% of the step sliced, 23.4% packed
sliced is 1.30 × as fast as fixed packing + 1F1B on these documents
)";

TEST(ComparedTurns, TellTheShareOfWaitingFirstInLinesThatFit) {
  const std::string narrow = compared_turns_text(three_turns(), Tokens(23'900), 80);
  EXPECT_EQ(narrow, kAt80);
  const std::string wide = compared_turns_text(three_turns(), Tokens(23'900), 120);
  EXPECT_NE(wide.find("predicted"), std::string::npos);
  EXPECT_NE(wide.find("3.5 k"), std::string::npos);  // 23,900 tokens in 6.9 s
  ComparedTurns wall = three_turns();
  wall.clock = ClockKind::kWall;
  EXPECT_NE(compared_turns_text(wall, Tokens(23'900), 120).find("by turns, by the wall clock\n"),
            std::string::npos);
}

TEST(ComparedTurns, SpreadsOfLongStepsKeepBothUnits) {
  ComparedTurns turns = three_turns();
  for (Nanos& step : turns.own.step) step = milliseconds(60'000);
  turns.own.step[1] = milliseconds(95'000);
  turns.other.step[0] = milliseconds(900);
  const std::string text = compared_turns_text(turns, Tokens(1), kAnyColumns);
  EXPECT_NE(text.find("  1 m 00 s–1 m 35 s  "), std::string::npos) << text;
  EXPECT_NE(text.find("  900 ms–9.3 s  "), std::string::npos) << text;
}

ComparedTurns read(const nlohmann::json& json) {
  return compared_turns_from(JsonFields(json, "measured.json: compared"));
}

TEST(ComparedTurns, AreReadAsTheyAreWritten) {
  const nlohmann::json json = to_json(three_turns());
  EXPECT_EQ(read(json), three_turns());
  EXPECT_DOUBLE_EQ(json["times_as_fast"].get<double>(), three_turns().times_as_fast());
  EXPECT_EQ(json["planners"][1]["step_ns"][0], 8'900'000'000);
}

TEST(ComparedTurns, WrongValuesAreNamed) {
  const nlohmann::json whole = to_json(three_turns());
  const auto refused = [&](const char* pointer, nlohmann::json value,
                           std::initializer_list<std::string_view> parts) {
    nlohmann::json changed = whole;
    changed[nlohmann::json::json_pointer(pointer)] = std::move(value);
    expect_invalid_input([&] { (void)read(changed); }, parts);
  };
  refused("/clock", "moon", {"clock", "moon"});
  refused("/planners", {1}, {"planners", "must have 2"});
  refused("/planners/0/step_ns", nlohmann::json::array(), {"planners[0]", "0 and 3"});
  refused("/planners/0/step_ns/1", 0, {"step_ns"});
  refused("/planners/1/bubble/2", 1.5, {"bubble", "1.5"});
  refused("/planners/1/bubble/2", "x", {"bubble"});
  refused("/planners/1/predicted_bubble", -1, {"predicted_bubble"});
  nlohmann::json fewer = whole;
  fewer["planners"][1]["step_ns"] = {1};
  fewer["planners"][1]["bubble"] = {0.5};
  expect_invalid_input([&] { (void)read(fewer); }, {"3 and 1 turns"});
}

}  // namespace
}  // namespace slimpack
