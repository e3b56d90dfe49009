#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/schedule.h"
#include "tests/support/random_plan.h"

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

std::string findings(const PackPlan& packs, const char* text, int slots = kChannelSlots) {
  std::string all;
  for (const std::string& line : check_schedule(packs, schedule_from_text(text, "test"), slots))
    all += line + "\n";
  return all;
}

TEST(CheckSchedule, AcceptsACorrectOrder) {
  EXPECT_EQ(findings(whole_sequences(2), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"), "");
}

TEST(CheckSchedule, NamesWhatIsMissingTwiceOrOutOfOrder) {
  const PackPlan packs = whole_sequences(2);
  EXPECT_EQ(findings(packs, "0F0,0F1,0B0\n"), "stage 0 runs 1 of 2 backward packs\n");
  EXPECT_EQ(findings(packs, "0F0,0B0\n"),
            "stage 0 runs 1 of 2 forward packs\nstage 0 runs 1 of 2 backward packs\n");
  EXPECT_NE(findings(packs, "0F1,0F0,0B0,0B1\n").find("lists 0F1 where pack 0 of 2 comes next"),
            std::string::npos);
  EXPECT_NE(findings(packs, "0F0,0F0,0F1,0B0,0B1\n").find("lists 0F0 where pack 1"),
            std::string::npos);
  EXPECT_NE(findings(packs, "0F0,0F1,0F2,0B0,0B1\n").find("lists 0F2 where pack 2 of 2"),
            std::string::npos);
  EXPECT_FALSE(check_schedule(packs, Schedule{}).empty());
  Schedule wrong_stage = schedule_from_text("0F0,0F1,0B0,0B1\n", "test");
  wrong_stage.ranks[0][1].stage = StageId(std::int32_t{5});
  EXPECT_FALSE(check_schedule(packs, wrong_stage).empty());
}

TEST(CheckSchedule, NamesABackwardBeforeTheForwardsItNeeds) {
  EXPECT_EQ(findings(whole_sequences(2), "0B0,0F0,0F1,0B1\n"),
            "deadlock: 0B0 needs 1 forwards on stage 0 before it, the order has 0\n");
  // One sequence in two forward packs: its backward needs both.
  PackPlan packs;
  packs.forward = {{{{SequenceId(0UL), Tokens(0), Tokens(3)}}},
                   {{{SequenceId(0UL), Tokens(3), Tokens(5)}}}};
  packs.backward = {{{{SequenceId(0UL), Tokens(0), Tokens(5)}}}};
  EXPECT_EQ(findings(packs, "0F0,0B0,0F1\n"),
            "deadlock: 0B0 needs 2 forwards on stage 0 before it, the order has 1\n");
}

TEST(CheckSchedule, NamesWaitsForANeighbour) {
  // Stage 0 wants the gradient of pack 0 before it has sent pack 1, which stage 1 runs first.
  EXPECT_EQ(findings(whole_sequences(2), "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
            "deadlock: 0B0 waits for the output of 1B0\n"
            "deadlock: 1F1 waits for the output of 0F1\n");
}

TEST(CheckSchedule, NamesFullChannels) {
  // With one slot each way: stage 1 takes F0 and sends B0, which stage 0 leaves in the channel; it
  // takes F1 and cannot send B1; stage 0 has put F2 and cannot put F3.
  const char* const text =
      "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n"
      "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  EXPECT_EQ(findings(whole_sequences(4), text, 1),
            "deadlock: stage 0 cannot send the output of 0F3: all 1 slots to stage 1 are full\n"
            "deadlock: stage 1 cannot send the output of 1B1: all 1 slots to stage 0 are full\n");
  EXPECT_EQ(findings(whole_sequences(4), text, 2), "");
}

TEST(CheckSchedule, AcceptsSplitBackwards) {
  EXPECT_EQ(findings(whole_sequences(2), "0F0,0F1,0I0,0B1,0W0\n1F0,1B0,1F1,1I1,1W1\n"), "");
}

TEST(CheckSchedule, NamesWeightGradientsThatAreMissingOrOutOfPlace) {
  const PackPlan packs = whole_sequences(2);
  EXPECT_EQ(findings(packs, "0F0,0F1,0I0,0I1,0W0\n"),
            "stage 0 runs 1 of 2 weight gradients that were put off\n");
  EXPECT_EQ(findings(packs, "0F0,0F1,0I0,0I1,0W1,0W0\n"),
            "stage 0 lists 0W1 where W0 comes next\nstage 0 lists 0W0 where W1 comes next\n");
  EXPECT_EQ(findings(packs, "0F0,0F1,0W0,0B0,0B1\n"),
            "stage 0 lists 0W0 where no weight gradients are put off\n");
  EXPECT_EQ(findings(packs, "0F0,0F1,0I0,0B0,0W0,0B1\n"),
            "stage 0 lists 0B0 where pack 1 of 2 comes next\n"
            "stage 0 lists 0B1 where pack 2 of 2 comes next\n");
}

TEST(CheckSchedule, NamesWhatANeighbourSplits) {
  EXPECT_EQ(findings(whole_sequences(2), "0F0,0B0,0F1,0B1\n1F0,1F1,1I0,1W0,1B1\n"),
            "deadlock: 0B0 waits for the output of 1I0\n"
            "deadlock: 1F1 waits for the output of 0F1\n");
}

RC_GTEST_PROP(CheckSchedule, NeverAcceptsALostOrDoubledAction, (std::uint64_t seed)) {
  Rng rng(seed);
  const PackPlan packs = whole_sequences(1 + rng.below(6));
  Schedule schedule = one_f_one_b(packs, 1 + static_cast<int>(rng.below(4)));
  auto& actions = schedule.ranks[rng.below(schedule.ranks.size())];
  const auto at = actions.begin() + static_cast<std::ptrdiff_t>(rng.below(actions.size()));
  if (rng.below(2) == 0)
    actions.erase(at);
  else
    actions.insert(at, Action(*at));
  RC_ASSERT(!check_schedule(packs, schedule).empty());
}

}  // namespace
}  // namespace slimpack
