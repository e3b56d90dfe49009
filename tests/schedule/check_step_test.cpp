#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/schedule.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"
#include "tests/support/wait_graph.h"

namespace slimpack {
namespace {

using testing::MergedAt;

/// Whole sequences of 8 tokens on two replicas with the same packs, forward as backward; `replicas`
/// by sequence.
StepPlan two_replicas(const std::vector<std::int32_t>& replicas, std::int32_t stages) {
  StepPlan plan;
  for (std::int32_t s = 0; s <= stages; ++s) plan.layout.layer_begin.push_back(s);
  plan.replicas.resize(2);
  for (const std::int32_t count : replicas)
    for (std::size_t r = 0; r < 2; ++r) {
      // A pack that is not merged is one sequence on each replica.
      if (r == 0 || count == 1) plan.lengths.emplace_back(8);
      const SequenceId q(plan.lengths.size() - 1);
      plan.replicas[r].sequences.push_back(q);
      plan.replicas[r].packs.forward.push_back({{{q, Tokens(0), Tokens(8)}}, count});
      plan.replicas[r].packs.backward.push_back(plan.replicas[r].packs.forward.back());
    }
  return plan;
}

std::string findings(const StepPlan& plan, std::initializer_list<const char*> texts,
                     int slots = kChannelSlots) {
  EXPECT_EQ(check_plan(plan), std::vector<std::string>{});
  std::vector<Schedule> schedules;
  for (const char* text : texts) schedules.push_back(schedule_from_text(text, "test"));
  std::string all;
  for (const std::string& line : check_step(plan, schedules, slots)) all += line + "\n";
  return all;
}

TEST(CheckStep, ChecksEveryReplicaAndNamesIt) {
  const StepPlan plan = two_replicas({1, 1}, 1);
  EXPECT_EQ(findings(plan, {"0F0,0F1,0B0,0B1\n", "0F0,0B0,0F1,0B1\n"}), "");
  EXPECT_EQ(findings(plan, {"0F0,0F1,0B0,0B1\n", "0F0,0F1,0B0\n"}),
            "replica 1: stage 0 runs 1 of 2 backward packs\n");
}

TEST(CheckStep, NamesOnlyTheStageOfASingleReplica) {
  StepPlan plan = two_replicas({1}, 1);
  plan.replicas.pop_back();
  plan.lengths.pop_back();
  EXPECT_EQ(findings(plan, {"0F0\n"}), "stage 0 runs 0 of 1 backward packs\n");
}

TEST(CheckStep, ReplicasWithoutMergedPacksMayRunInAnyOrder) {
  EXPECT_EQ(findings(two_replicas({1, 1}, 1), {"0F0,0F1,0B0,0B1\n", "0F0,0B0,0F1,0B1\n"}), "");
}

TEST(CheckStep, NamesMergedPacksInAnotherOrderAgainstTheOtherPass) {
  // Each order is right by itself; together replica 0 waits in F1 for replica 1, which waits in B0.
  const StepPlan plan = two_replicas({2, 2}, 1);
  EXPECT_EQ(findings(plan, {"0F0,0F1,0B0,0B1\n", "0F0,0F1,0B0,0B1\n"}), "");
  EXPECT_EQ(findings(plan, {"0F0,0F1,0B0,0B1\n", "0F0,0B0,0F1,0B1\n"}),
            "replica 0: deadlock: 0F1 waits for the other replicas of its MicroPack\n"
            "replica 1: deadlock: 0B0 waits for the other replicas of its MicroPack\n");
}

TEST(CheckStep, PacksOfTheirOwnMayStandBetweenMergedOnes) {
  // Pack 1 is not merged: replica 1 may run its backward where replica 0 runs the forward of 2.
  const StepPlan plan = two_replicas({2, 1, 2}, 1);
  EXPECT_EQ(findings(plan, {"0F0,0F1,0F2,0B0,0B1,0B2\n", "0F0,0F1,0F2,0B0,0B1,0B2\n"}), "");
  EXPECT_EQ(findings(plan, {"0F0,0B0,0F1,0B1,0F2,0B2\n", "0F0,0B0,0F1,0F2,0B1,0B2\n"}), "");
  EXPECT_EQ(findings(plan, {"0F0,0F1,0F2,0B0,0B1,0B2\n", "0F0,0F1,0B0,0B1,0F2,0B2\n"}),
            "replica 0: deadlock: 0F2 waits for the other replicas of its MicroPack\n"
            "replica 1: deadlock: 0B0 waits for the other replicas of its MicroPack\n");
}

TEST(CheckStep, FindsCirclesThroughSeveralStages) {
  // On stage 0 replica 0 wants B0 before F1 and replica 1 the other way round; stage 1 waits for
  // what stage 0 does not send.
  const StepPlan plan = two_replicas({2, 2}, 2);
  const char* const first = "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(findings(plan, {first, first}), "");
  EXPECT_EQ(findings(plan, {first, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"}),
            "replica 0: deadlock: 0B0 waits for the other replicas of its MicroPack\n"
            "replica 0: deadlock: 1F1 waits for the output of 0F1\n"
            "replica 1: deadlock: 0F1 waits for the other replicas of its MicroPack\n"
            "replica 1: deadlock: 1F1 waits for the output of 0F1\n");
}

TEST(CheckStep, TakesTheSlotsThatItIsGiven) {
  // Stage 0 of replica 1 puts four forwards before it takes a gradient: stage 1 cannot send the
  // second one through a channel of one slot, and does not take the third forward.
  const StepPlan plan = two_replicas({2, 1, 1, 1}, 2);
  const char* const steady = "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  const char* const ahead = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n";
  EXPECT_EQ(findings(plan, {steady, ahead}, 2), "");
  EXPECT_EQ(
      findings(plan, {steady, ahead}, 1),
      "replica 1: deadlock: stage 0 cannot send the output of 0F3: all 1 slots to stage 1 are "
      "full\n"
      "replica 1: deadlock: stage 1 cannot send the output of 1B1: all 1 slots to stage 0 are "
      "full\n");
}

RC_GTEST_PROP(CheckStep, AcceptsWhatHasRun, (std::uint64_t seed)) {
  Rng rng(seed);
  const int stages = 1 + static_cast<int>(rng.below(3));
  const int slots = 1 + static_cast<int>(rng.below(3));
  const StepPlan plan = testing::random_step(rng, stages, MergedAt::kAnywhere);
  RC_ASSERT(check_plan(plan).empty());
  auto schedules = testing::RandomOrders(rng, plan, slots).draw();
  if (rng.below(2) == 0) testing::split_some(rng, plan, schedules);
  RC_ASSERT(check_step(plan, schedules, slots).empty());
}

/// Moves a backward past the forward behind it, or the other way round, in some places.
void disturb(Rng& rng, std::vector<Schedule>& schedules) {
  for (Schedule& schedule : schedules)
    for (auto& actions : schedule.ranks)
      for (std::size_t i = 1; i < actions.size(); ++i)
        if (actions[i].pass != actions[i - 1].pass && rng.below(6) == 0)
          std::swap(actions[i], actions[i - 1]);
}

RC_GTEST_PROP(CheckStep, FindsADeadlockExactlyWhereTheGraphHasACircle, (std::uint64_t seed)) {
  Rng rng(seed);
  const int stages = 1 + static_cast<int>(rng.below(3));
  const int slots = 1 + static_cast<int>(rng.below(3));
  const StepPlan plan = testing::random_step(rng, stages, MergedAt::kAnywhere);
  auto schedules = testing::RandomOrders(rng, plan, slots).draw();
  disturb(rng, schedules);
  if (rng.below(2) == 0) testing::split_some(rng, plan, schedules);
  const auto times = testing::random_step_times(rng, plan);
  const bool deadlocks = testing::WaitGraph(plan, schedules, times, slots).deadlocks();
  RC_CLASSIFY(deadlocks, "deadlock");
  RC_ASSERT(check_step(plan, schedules, slots).empty() == !deadlocks);
}

}  // namespace
}  // namespace slimpack
