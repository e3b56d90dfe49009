#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// `count` packs of one whole sequence each.
PackPlan whole_sequences(std::size_t count) {
  PackPlan packs;
  for (std::size_t q = 0; q < count; ++q)
    packs.forward.push_back({{{SequenceId(q), Tokens(0), Tokens(5)}}});
  packs.backward = packs.forward;
  return packs;
}

TEST(OneFOneB, FourStagesAndEightPacksFollowTheTextbook) {
  // Stage s of 4 warms up with 3 − s forwards; then one forward, one backward in turn; then the
  // backwards that are left, as many as warm-up forwards.
  EXPECT_EQ(schedule_to_text(one_f_one_b(whole_sequences(8), 4)),
            "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7\n"
            "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7\n"
            "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7\n"
            "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7\n");
}

RC_GTEST_PROP(OneFOneB, IsCorrectForEveryShapeWithTwoSlots, ()) {
  const auto packs = whole_sequences(*rc::gen::inRange<std::size_t>(1, 20));
  const int stages = *rc::gen::inRange(1, 9);
  // Warm-up runs one forward further than the next stage's, and a pair may put one more before the
  // next stage takes the first: two messages, however many stages there are.
  RC_ASSERT(check_schedule(packs, one_f_one_b(packs, stages), 2).empty());
}

}  // namespace
}  // namespace slimpack
