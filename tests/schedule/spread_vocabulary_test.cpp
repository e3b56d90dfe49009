#include "slimpack/schedule/spread_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slimpack {
namespace {

using Errors = std::vector<std::string>;

/// Sequences of one token, each a pack of its own in both passes.
PackPlan whole_packs(int count) {
  PackPlan packs;
  for (int q = 0; q < count; ++q)
    packs.forward.push_back({{Slice{SequenceId(q), Tokens(0), Tokens(1)}}});
  packs.backward = packs.forward;
  return packs;
}

Schedule spread(const PackPlan& packs, const Schedule& schedule) {
  const StepPlan plan{.lengths = {}, .layout = {{}, {}, true}, .replicas = {{{}, packs}}};
  return with_vocabulary(plan, {schedule}).front();
}

TEST(VocabularyActions, StandBetweenTheForwardAndTheBackwardOfATick) {
  // Ticks of F on rank 0: 0, 1, 2; on rank 1 one later. B0 comes right after F0 on rank 1, in tick
  // 1, and a tick later on rank 0. Rank 0 runs F2 and B0 in tick 2, rank 1 F1 and B1. E runs a tick
  // before F on rank 0, H in the tick of F on rank 1, G a tick after B on rank 0: E0; E1; E2 H0;
  // H1; G0 H2; G1; G2 from the tick before the first on.
  const PackPlan packs = whole_packs(3);
  EXPECT_EQ(schedule_to_text(spread(packs, sliced_one_f_one_b(packs, 2, 2))),
            "0E0,0F0,0E1,0F1,0E2,0H0,0F2,0H1,0B0,0G0,0H2,0B1,0G1,0B2,0G2\n"
            "1E0,1E1,1F0,1E2,1H0,1B0,1F1,1H1,1B1,1F2,1G0,1H2,1B2,1G1,1G2\n");
}

TEST(VocabularyActions, NeedEveryForwardOfTheirRows) {
  // A sequence in two slices: both heads need both forwards, which rank 1 runs in ticks 1 and 2.
  PackPlan packs;
  for (const int begin : {0, 1})
    packs.forward.push_back({{Slice{SequenceId(0), Tokens(begin), Tokens(begin + 1)}}});
  packs.backward = {packs.forward[1], packs.forward[0]};
  EXPECT_EQ(schedule_to_text(spread(packs, sliced_one_f_one_b(packs, 2, 2))),
            "0E0,0F0,0E1,0F1,0H0,0H1,0B0,0G0,0B1,0G1\n"
            "1E0,1E1,1F0,1F1,1H0,1H1,1B0,1B1,1G0,1G1\n");
}

TEST(VocabularyActions, FollowAllStagesOfARank) {
  const PackPlan packs = whole_packs(4);
  const Schedule order = spread(packs, sliced_one_f_one_b(packs, 2, 2, 2));
  EXPECT_EQ(check_schedule(packs, order), Errors{});
  for (const auto& actions : order.ranks)
    EXPECT_EQ(std::ranges::count_if(actions, is_joint, &Action::pass), 12);
}

TEST(VocabularyActions, OfNoPacksAreNone) {
  const PackPlan packs;
  EXPECT_EQ(spread(packs, Schedule{{{}, {}}}), (Schedule{{{}, {}}}));
}

/// Two ranks, a sequence of one token.
Errors errors_of(const char* text) {
  return check_schedule(whole_packs(1), schedule_from_text(text, "test"));
}

TEST(VocabularyActions, AreChecked) {
  EXPECT_EQ(errors_of("0E0,0F0,0H0,0B0,0G0\n1E0,1F0,1H0,1B0,1G0\n"), Errors{});
  EXPECT_EQ(errors_of("0E0,0F0,0H0,0B0,0G0\n1F0,1B0\n"),
            Errors{"rank 1 runs E, H and G in another order than rank 0"});
}

TEST(VocabularyActions, AreMissedWhereTheyAreNeeded) {
  EXPECT_EQ(errors_of("0E0,0F0,0B0,0G0\n1E0,1F0,1B0,1G0\n"), Errors{"rank 0 runs 0 of 1 H"});
  EXPECT_EQ(errors_of("0F0,0E0,0H0,0B0,0G0\n1E0,1F0,1H0,1B0,1G0\n"),
            (Errors{"deadlock: 0F0 comes before 0E0, which it needs",
                    "deadlock: 1E0 waits for rank 0, which runs something else next"}));
  EXPECT_EQ(errors_of("0E0,0F0,0H0,0B0,0G0\n1E0,1F0,1B0,1H0,1G0\n"),
            (Errors{"deadlock: 0H0 waits for rank 1, which runs something else next",
                    "deadlock: 1B0 comes before 1H0, which it needs"}));
  EXPECT_EQ(errors_of("0E0,0H0,0F0,0B0,0G0\n1E0,1H0,1F0,1B0,1G0\n"),
            (Errors{"deadlock: 0H0 needs 1 forwards on stage 1 before it, the order has 0",
                    "deadlock: 1H0 needs 1 forwards on stage 1 before it, the order has 0"}));
  EXPECT_EQ(errors_of("0E0,0F0,0H0,0G0,0B0\n1E0,1F0,1H0,1B0,1G0\n"),
            (Errors{"deadlock: 0G0 comes before 0B0, which it needs",
                    "deadlock: 1G0 comes before 0B0, which it needs"}));
}

}  // namespace
}  // namespace slimpack
