#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <numeric>

#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Makes so many packs, each of a sequence of its own.
PackPlan packs_of(std::size_t count) {
  PackPlan plan;
  for (std::size_t p = 0; p < count; ++p)
    plan.forward.push_back({{Slice{SequenceId(p), Tokens(0), Tokens(1)}}});
  plan.backward = plan.forward;
  return plan;
}

TEST(WaitFreeCyclic, RunsABackwardAndAForwardInEveryCycle) {
  // Cycles of stage 0: F0 | F1 | F2 | B0 F3 | B1 | B2 | B3; of stage 1: – | F0 | B0 F1 | B1 F2 | B2
  // F3 | B3. The other stage has in the next cycle what a stage runs in a cycle.
  EXPECT_EQ(schedule_to_text(wait_free_cyclic(std::vector<std::int64_t>{1, 1, 1, 1}, 2, kNoLimit)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
}

TEST(WaitFreeCyclic, LeavesAForwardForALaterCycleAtTheLimit) {
  // Stage 0 holds packs 0 and 1 in cycle 3, so F2 waits until B0 has run in cycle 4.
  EXPECT_EQ(schedule_to_text(wait_free_cyclic(std::vector<std::int64_t>{5, 5, 5}, 2, 10)),
            "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  // A limit below every pack: one at a time.
  EXPECT_EQ(schedule_to_text(wait_free_cyclic(std::vector<std::int64_t>{5, 5}, 2, 0)),
            "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n");
}

RC_GTEST_PROP(WaitFreeCyclic, OrdersOfAnyLimitRun, ()) {
  const auto weights = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::int64_t>(0, 100));
  const auto stages = *rc::gen::inRange(1, 17);
  const auto limit = *rc::gen::inRange<std::int64_t>(0, 1000);
  const Schedule schedule = wait_free_cyclic(weights, stages, limit);
  RC_ASSERT(check_schedule(packs_of(weights.size()), schedule) == std::vector<std::string>{});
  // No stage holds more than the limit, unless it holds one pack.
  for (const auto& actions : schedule.ranks) {
    std::int64_t held = 0;
    int packs = 0;
    for (const Action& action : actions) {
      const int sign = action.pass == Pass::kForward ? 1 : -1;
      held += sign * weights[action.pack.index()];
      packs += sign;
      RC_ASSERT(held <= limit || packs == 1);
    }
  }
}

TEST(SplitBackwards, PutsOffWeightGradientsOnLaterStages) {
  // Stage s leaves s packs of weight gradients behind; what is left at the end comes last.
  const Schedule whole = one_f_one_b(packs_of(3), 3);
  EXPECT_EQ(schedule_to_text(split_backwards(whole)),
            "0F0,0F1,0F2,0I0,0W0,0I1,0W1,0I2,0W2\n"
            "1F0,1F1,1I0,1F2,1I1,1W0,1I2,1W1,1W2\n"
            "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2W1,2W2\n");
}

RC_GTEST_PROP(SplitBackwards, OrdersRun, ()) {
  const PackPlan packs = packs_of(*rc::gen::inRange<std::size_t>(0, 20));
  const Schedule whole =
      sliced_one_f_one_b(packs, *rc::gen::inRange(1, 9), *rc::gen::inRange(0, 3));
  RC_ASSERT(check_schedule(packs, split_backwards(whole)) == std::vector<std::string>{});
}

}  // namespace
}  // namespace slimpack
