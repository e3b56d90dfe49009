#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// Pack j is one sequence in counts[j] slices of one token; its slices run back in reverse.
PackPlan sliced_packs(const std::vector<int>& counts) {
  PackPlan packs;
  for (std::size_t j = 0; j < counts.size(); ++j) {
    std::vector<MicroPack> own;
    for (int i = 0; i < counts[j]; ++i)
      own.push_back({{Slice{SequenceId(j), Tokens(i), Tokens(i + 1)}}});
    packs.forward.insert(packs.forward.end(), own.begin(), own.end());
    packs.backward.insert(packs.backward.end(), own.rbegin(), own.rend());
  }
  return packs;
}

TEST(SlicedOneFOneB, KeepsThePacksSlicesAndTheStagesBehindInFlight) {
  // Seq1F1B's figure for 2 stages and packs of 2 slices: the last stage runs 2 forwards ahead, the
  // first 3. Backward packs 0 and 1 are the first pack's slices in reverse.
  EXPECT_EQ(schedule_to_text(sliced_one_f_one_b(sliced_packs({2, 2}), 2, 1)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n");
  // SlimPipe: two more for each stage behind.
  EXPECT_EQ(schedule_to_text(sliced_one_f_one_b(sliced_packs({2, 2}), 2, 2)),
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n");
}

TEST(SlicedOneFOneB, PassesAllStagesOfARankInRounds) {
  // Two ranks of two stages, two packs of two slices. A round is two slices: through the rank's
  // first stage, then through its second one; back the other way round. The last rank runs the four
  // forwards of a pack ahead, the first one two more.
  EXPECT_EQ(schedule_to_text(sliced_one_f_one_b(sliced_packs({2, 2}), 2, 2, 2)),
            "0F0,0F1,2F0,2F1,0F2,0F3,2B0,2F2,2B1,2F3,0B0,0B1,2B2,2B3,0B2,0B3\n"
            "1F0,1F1,3F0,3F1,3B0,1F2,3B1,1F3,1B0,3F2,1B1,3F3,3B2,3B3,1B2,1B3\n");
}

TEST(SlicedOneFOneB, RoundsDivideThePacksEvenly) {
  // Six slices on two ranks: rounds of two. Nine: of three.
  const auto first = [](int slices) {
    return schedule_to_text(sliced_one_f_one_b(sliced_packs({slices}), 2, 2, 2)).substr(0, 19);
  };
  EXPECT_EQ(first(6), "0F0,0F1,2F0,2F1,0F2");
  EXPECT_EQ(first(9), "0F0,0F1,0F2,2F0,2F1");
}

TEST(SlicedOneFOneB, OfWholeSequencesIsMegatronsInterleavedOrder) {
  // Two ranks of two stages, four packs: rounds of two. Rank r runs 2 · (2 − 1 − r) + 2 forwards
  // before the first pair of a forward and a backward (arXiv:2104.04473, figure 4).
  EXPECT_EQ(schedule_to_text(sliced_one_f_one_b(sliced_packs({1, 1, 1, 1}), 2, 2, 2)),
            "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
}

TEST(SlicedOneFOneB, OfWholeSequencesIsPlainOneFOneB) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int count = 0; count <= 7; ++count) {
      const PackPlan packs = sliced_packs(std::vector<int>(static_cast<std::size_t>(count), 1));
      EXPECT_EQ(sliced_one_f_one_b(packs, stages, 1), one_f_one_b(packs, stages));
    }
}

RC_GTEST_PROP(SlicedOneFOneB, RunsPacksOfAnySliceCountsToTheirEnd, ()) {
  const auto counts = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 9));
  const PackPlan packs = sliced_packs(counts);
  const auto schedule =
      sliced_one_f_one_b(packs, *rc::gen::inRange(1, 7), *rc::gen::inRange<std::int32_t>(0, 3));
  RC_ASSERT(check_schedule(packs, schedule, *rc::gen::inRange(1, 9)) == std::vector<std::string>{});
}

RC_GTEST_PROP(SlicedOneFOneB, RunsSeveralStagesARankToTheirEnd, ()) {
  const auto counts = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 9));
  const PackPlan packs = sliced_packs(counts);
  const Schedule schedule =
      sliced_one_f_one_b(packs, *rc::gen::inRange(2, 20), 2, *rc::gen::inRange<std::int32_t>(2, 5));
  RC_ASSERT(check_schedule(packs, schedule) == std::vector<std::string>{});
}

TEST(ColumnedOneFOneB, LeavesGapsWhereAColumnHasNoMicroPack) {
  // Columns 0 1 2 3 of two stages: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3 and 1F0 1B0 1F1 1B1 …; packs 0
  // and 1 are columns 0 and 3.
  EXPECT_EQ(schedule_to_text(columned_one_f_one_b({0, 3}, 4, 2)),
            "0F0,0B0,0F1,0B1\n"
            "1F0,1B0,1F1,1B1\n");
}

TEST(ColumnedOneFOneB, WithoutGapsIsPlainOneFOneB) {
  for (int stages = 1; stages <= 4; ++stages) {
    EXPECT_EQ(columned_one_f_one_b({0, 1, 2}, 3, stages),
              one_f_one_b(sliced_packs({1, 1, 1}), stages));
    EXPECT_EQ(columned_one_f_one_b({}, 0, stages), one_f_one_b({}, stages));
  }
}

RC_GTEST_PROP(ColumnedOneFOneB, RunsToItsEnd, ()) {
  std::vector<std::int32_t> columns;
  for (const int gap : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 5)))
    columns.push_back((columns.empty() ? -1 : columns.back()) + gap);
  const std::int32_t count = (columns.empty() ? 0 : columns.back() + 1) + *rc::gen::inRange(0, 4);
  const PackPlan packs = sliced_packs(std::vector<int>(columns.size(), 1));
  const int ranks = *rc::gen::inRange(1, 6);
  RC_ASSERT(check_schedule(packs, columned_one_f_one_b(columns, count, ranks), 1) ==
            std::vector<std::string>{});
  const auto stages_per_rank = *rc::gen::inRange<std::int32_t>(2, 5);
  RC_ASSERT(
      check_schedule(packs, columned_one_f_one_b(columns, count, ranks + 1, stages_per_rank)) ==
      std::vector<std::string>{});
}

}  // namespace
}  // namespace slimpack
