#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"
#include "slimpack/schedule/schedule.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

RC_GTEST_PROP(ScheduleText, RoundTripsAnyOrder, (std::uint64_t seed)) {
  Rng rng(seed);
  Schedule schedule;
  schedule.ranks.resize(1 + rng.below(4));
  for (std::size_t s = 0; s < schedule.ranks.size(); ++s)
    for (std::uint64_t i = rng.below(6); i > 0; --i)
      schedule.ranks[s].push_back({StageId(s), static_cast<Pass>(rng.below(4)),
                                   PackId(static_cast<std::size_t>(rng.below(1ULL << 31)))});
  RC_ASSERT(schedule_from_text(schedule_to_text(schedule), "test") == schedule);
}

TEST(ScheduleText, AcceptsAMissingLastNewlineAndCarriageReturns) {
  EXPECT_EQ(schedule_from_text("0F0,0B0\r\n1F0,1B0", "test"),
            schedule_from_text("0F0,0B0\n1F0,1B0\n", "test"));
}

TEST(ScheduleText, AStageWithNothingToDoIsAnEmptyLine) {
  const Schedule idle{{{}, {}}};
  EXPECT_EQ(schedule_to_text(idle), "\n\n");
  EXPECT_EQ(schedule_from_text("\n\n", "test"), idle);
  EXPECT_EQ(schedule_from_text("\r\n\r\n", "test"), idle);
}

TEST(ScheduleText, ErrorsNameLineCellAndRule) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "the schedule is empty"},
      {"\n0F0\n", "line 2, cell 1: 0F0 belongs to stage 0, this line to stage 1"},
      {"0F0,\n", "line 1, cell 2: \"\" is no action"},
      {"0F0,0X1\n", "line 1, cell 2: \"0X1\" is no action"},
      {"0F\n", "cell 1: \"0F\""},
      {"F0\n", "cell 1: \"F0\""},
      {"0F0 \n", "cell 1: \"0F0 \""},
      {"0F-1\n", "cell 1: \"0F-1\""},
      {"0F99999999999\n", "cell 1: \"0F99999999999\""},
      {"0F0\n0B0\n", "line 2, cell 1: 0B0 belongs to stage 0, this line to stage 1"},
  };
  for (const auto& [text, words] : cases) try {
      (void)schedule_from_text(text, "order.txt");
      ADD_FAILURE() << text;
    } catch (const InvalidInput& e) {
      EXPECT_EQ(std::string(e.what()).rfind("order.txt: ", 0), 0U) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
}

TEST(ScheduleText, ARankHasAllItsStagesInOneLine) {
  const std::string text = "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n";
  const Schedule schedule = schedule_from_text(text, "test", StagePlacement::looped(2, 2));
  EXPECT_EQ(schedule.stages(), 4U);
  EXPECT_EQ(schedule_to_text(schedule), text);
  expect_invalid_input(
      [] {
        (void)schedule_from_text("0F0,2F0\n1F0,4F0\n", "order.txt", StagePlacement::looped(2, 2));
      },
      {"order.txt: line 2, cell 2: 4F0 belongs to stage 4, this line to stage 1 or 3"});
}

}  // namespace
}  // namespace slimpack
