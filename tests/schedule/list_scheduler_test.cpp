#include "slimpack/schedule/list_scheduler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/schedule/step_graph.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

struct Case {
  int slots = 1;
  StepPlan plan;
  std::vector<TaskTimes> times;
  std::vector<TaskBytes> bytes;

  [[nodiscard]] std::vector<ReplicaPacks> replicas() const {
    std::vector<ReplicaPacks> out;
    for (std::size_t r = 0; r < plan.replicas.size(); ++r)
      out.push_back({plan.replicas[r].packs, times[r], bytes[r]});
    return out;
  }
  [[nodiscard]] ListScheduler scheduler(const std::vector<ReplicaPacks>& replicas) const {
    return ListScheduler(replicas, slots, plan.layout.placement.stages_per_rank());
  }
  [[nodiscard]] std::vector<Schedule> own_orders(const Schedule& common) const {
    std::vector<Schedule> out;
    for (const ReplicaPlan& replica : plan.replicas)
      out.push_back(own_order(common, replica.packs));
    return out;
  }
};

/// One to four ranks; in one case of three two or more, with two or three stages each.
Case random_case(Rng& rng) {
  Case out;
  auto ranks = 1 + static_cast<std::int32_t>(rng.below(4));
  const std::int32_t stages_per_rank =
      rng.below(3) == 0 ? 2 + static_cast<std::int32_t>(rng.below(2)) : 1;
  if (stages_per_rank > 1) ranks = std::max(ranks, 2);
  out.slots = (stages_per_rank > 1 ? 2 : 1) + static_cast<int>(rng.below(4));
  out.plan = testing::random_step(rng, ranks * stages_per_rank, testing::MergedAt::kSameIndex);
  out.plan.layout.placement = StagePlacement::looped(ranks, stages_per_rank);
  out.times = testing::random_step_times(rng, out.plan);
  out.bytes = testing::random_step_bytes(rng, out.plan);
  return out;
}

ListPolicy random_policy(Rng& rng) {
  ListPolicy policy{rng.below(2) == 0 ? Pass::kForward : Pass::kBackward};
  if (rng.below(2) == 0) policy.split_from = static_cast<std::int32_t>(rng.below(8));
  return policy;
}

RC_GTEST_PROP(ListScheduler, ReplicasMeetInTheirPartsOfTheCommonOrder, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  RC_ASSERT(check_plan(c.plan).empty());
  const auto replicas = c.replicas();
  const ListPolicy policy = random_policy(rng);
  const auto result = c.scheduler(replicas).run({}, policy);
  RC_ASSERT(result.has_value());
  RC_ASSERT(check_step(c.plan, c.own_orders(result->schedule), c.slots).empty());
}

RC_GTEST_PROP(ListScheduler, RunsEAndHAndGWhereAllRanksMeet, (std::uint64_t seed)) {
  Rng rng(seed);
  Case c = random_case(rng);
  RC_PRE(c.plan.layout.placement.stages_per_rank() == 1);
  c.plan.layout.spread_vocabulary = true;
  for (std::size_t r = 0; r < c.times.size(); ++r)
    for (const Pass pass : kJointPasses)
      for (std::size_t p = 0; p < c.plan.replicas[r].packs.of(pass).size(); ++p)
        c.times[r].joint[joint_index(pass)].push_back(
            Nanos(static_cast<std::int64_t>(rng.below(50))));
  const auto replicas = c.replicas();
  const ListScheduler scheduler = c.scheduler(replicas);
  ListPolicy policy = random_policy(rng);
  policy.joint = true;
  const bool capped = rng.below(2) == 0;
  const auto result =
      scheduler.run(capped ? scheduler.least_memory() : std::vector<Bytes>{}, policy);
  RC_ASSERT(result.has_value());
  const std::vector<Schedule> orders = c.own_orders(result->schedule);
  RC_ASSERT(check_step(c.plan, orders, c.slots) == std::vector<std::string>{});
  const StepGraph graph = timed_graph(replicas, orders, c.slots);
  for (std::size_t r = 0; r < graph.replicas(); ++r)
    for (std::size_t p = 0; p < graph.ranks(); ++p)
      for (const StepNode& node : graph.rank(r, p)) RC_ASSERT(Nanos(node.end) <= result->makespan);
}

RC_GTEST_PROP(ListScheduler, FindsOrdersUnderEveryCapFromTheLeastMemory, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const auto replicas = c.replicas();
  const ListScheduler scheduler = c.scheduler(replicas);
  std::vector<Bytes> cap = scheduler.least_memory();
  const bool least = rng.below(2) == 0;
  for (Bytes& bytes : cap) bytes += Bytes(least ? 0 : static_cast<std::int64_t>(rng.below(100)));
  const ListPolicy policy = random_policy(rng);
  const auto result = scheduler.run(cap, policy);
  RC_ASSERT(result.has_value());
  RC_ASSERT(check_step(c.plan, c.own_orders(result->schedule), c.slots).empty());
  for (std::size_t s = 0; s < cap.size(); ++s) RC_ASSERT(result->memory[s] <= cap[s]);
}

RC_GTEST_PROP(ListScheduler, GivesUpOnlyWhatTakesTooLong, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const auto replicas = c.replicas();
  const ListScheduler scheduler = c.scheduler(replicas);
  ListPolicy policy = random_policy(rng);
  const auto result = scheduler.run({}, policy);
  policy.give_up_above = result->makespan;
  const auto same = scheduler.run({}, policy);
  RC_ASSERT(same.has_value());
  RC_ASSERT(same->schedule == result->schedule);
  // Whole backwards: the lowest stage ends the step.
  if (policy.split_from < scheduler.backwards()) return;
  policy.give_up_above = result->makespan - Nanos(1);
  RC_ASSERT(!scheduler.run({}, policy).has_value());
}

RC_GTEST_PROP(ListScheduler, FindsNothingBelowTheLeastMemory, (std::uint64_t seed)) {
  Rng rng(seed);
  const Case c = random_case(rng);
  const auto replicas = c.replicas();
  const ListScheduler scheduler = c.scheduler(replicas);
  std::vector<Bytes> cap = scheduler.least_memory();
  cap[rng.below(cap.size())] -= Bytes(1);
  RC_ASSERT(!scheduler.run(cap).has_value());
}

RC_GTEST_PROP(ListScheduler, SaysTheMemoryOfItsOrders, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepPlan plan = testing::random_plan(rng, 3);
  const PackPlan& packs = plan.replicas.front().packs;
  const TaskTimes times = testing::random_times(rng, packs, 3);
  const TaskBytes bytes = testing::random_bytes(rng, plan, 3);
  const ReplicaPacks replica{packs, times, bytes};
  const ListScheduler scheduler(std::span(&replica, 1));
  std::vector<Bytes> cap = scheduler.least_memory();
  for (Bytes& most : cap) most += Bytes(static_cast<std::int64_t>(rng.below(100)));
  const ListPolicy policy = random_policy(rng);
  const auto result = scheduler.run(cap, policy);
  RC_ASSERT(result->memory == schedule_memory(packs, result->schedule, bytes));
  // A cap between that and the old one changes nothing.
  for (std::size_t s = 0; s < cap.size(); ++s)
    cap[s] = std::max(result->memory[s], scheduler.least_memory()[s]);
  RC_ASSERT(scheduler.run(cap, policy)->schedule == result->schedule);
}

/// Two packs of one sequence each on two stages: forward takes 1, backward 2, each half of it 1;
/// rows hold 10, operands of weight gradients 5.
struct SplitExample {
  PackPlan packs;
  TaskTimes times;
  TaskBytes bytes;

  SplitExample() {
    for (std::size_t q = 0; q < 2; ++q)
      packs.forward.push_back({{{SequenceId(q), Tokens(0), Tokens(8)}}});
    packs.backward = packs.forward;
    times.forward.assign(2, std::vector<Nanos>(2, Nanos(1)));
    times.backward.assign(2, std::vector<Nanos>(2, Nanos(2)));
    times.input_gradient = times.weight_gradient = times.forward;
    times.forward_transfer = times.backward_transfer = times.reduce = times.step_end =
        std::vector<Nanos>(2, Nanos(0));
    const std::vector<std::vector<Bytes>> none(2, std::vector<Bytes>(2, Bytes(0)));
    bytes.rows.assign(2, std::vector<Bytes>(2, Bytes(10)));
    bytes.weight_operands.assign(2, std::vector<Bytes>(2, Bytes(5)));
    bytes.input_transient = bytes.weight_operands;
    bytes.kv = bytes.dkv = bytes.forward_transient = bytes.backward_transient =
        bytes.weight_transient = none;
    bytes.forward_input = bytes.backward_input = none.front();
  }
};

TEST(ListScheduler, WeightGradientsFillWaits) {
  // Stage 1: F0 [1,2) I0 [2,3) F1 [3,4) I1 [4,5), then W0, W1. Stage 0 has F0, F1, I0 [3,4) and one
  // unit until I1 comes: W0 [4,5) I1 [5,6) W1 [6,7). With whole backwards it ends at 9.
  const SplitExample e;
  const ReplicaPacks replica{e.packs, e.times, e.bytes};
  const ListScheduler scheduler(std::span(&replica, 1));
  const auto result = scheduler.run({}, {.split_from = 0});
  EXPECT_EQ(schedule_to_text(result->schedule),
            "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_EQ(result->makespan, Nanos(7));
  EXPECT_EQ(scheduler.run({})->makespan, Nanos(9));
  // Stage 0: two packs of rows and the operands of one. Stage 1: one of rows and the operands of
  // both.
  EXPECT_EQ(result->memory, (std::vector<Bytes>{Bytes(25), Bytes(20)}));
}

TEST(ListScheduler, BackwardsAreWholeWhereOperandsDoNotFit) {
  // Stage 0 has no room for operands beside the rows of two packs, stage 1 not for those of two
  // packs beside the rows of one: B0 [3,5) and B1 [4,6). I1 on stage 0 waits until 6.
  const SplitExample e;
  const ReplicaPacks replica{e.packs, e.times, e.bytes};
  const auto result =
      ListScheduler(std::span(&replica, 1)).run({Bytes(20), Bytes(15)}, {.split_from = 0});
  EXPECT_EQ(schedule_to_text(result->schedule), "0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1B1,1W0\n");
  EXPECT_EQ(result->makespan, Nanos(8));
  EXPECT_EQ(result->memory, (std::vector<Bytes>{Bytes(20), Bytes(15)}));
}

TEST(ListScheduler, SplitsOnlyTheLastBackwardsWhenAsked) {
  const SplitExample e;
  const ReplicaPacks replica{e.packs, e.times, e.bytes};
  const auto result = ListScheduler(std::span(&replica, 1)).run({}, {.split_from = 1});
  // Stage 1: B0 [2,4) F1 [4,5) I1 [5,6) W1; stage 0: B0 [4,6) I1 [6,7) W1 [7,8).
  EXPECT_EQ(schedule_to_text(result->schedule), "0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1I1,1W1\n");
  EXPECT_EQ(result->makespan, Nanos(8));
}

TEST(ListScheduler, TheCommonOrderKeepsPaceWithTheSlowestReplica) {
  // One merged pack, then one of its own on replica 0 and two on replica 1; two stages, forward 1
  // and backward 2 but for the merged pack, whose forward takes replica 1 three times as long.
  // Free transfers. Stage 0: F0 [0,3) F1 [3,4) F2 [4,5), then nothing until B0 is back at 8: stage
  // 1 runs F0 [3,6), B0 [6,8), F1 [8,9), B1 [9,11), F2, B2 [12,14). B2 on stage 0 ends at 16.
  PackPlan packs[2];
  std::int32_t next = 1;
  for (std::size_t r = 0; r < 2; ++r) {
    packs[r].forward = {{{{SequenceId(0), Tokens(0), Tokens(8)}}, 2}};
    for (std::size_t own = 0; own <= r; ++own)
      packs[r].forward.push_back({{{SequenceId(next++), Tokens(0), Tokens(8)}}});
    packs[r].backward = packs[r].forward;
  }
  TaskTimes times[2];
  TaskBytes bytes[2];
  for (std::size_t r = 0; r < 2; ++r) {
    const std::size_t count = packs[r].forward.size();
    times[r].forward.assign(2, std::vector<Nanos>(count, Nanos(1)));
    times[r].backward.assign(2, std::vector<Nanos>(count, Nanos(2)));
    times[r].forward_transfer.assign(count, Nanos(0));
    times[r].backward_transfer.assign(count, Nanos(0));
    times[r].reduce.assign(2, Nanos(0));
    times[r].step_end.assign(2, Nanos(0));
    bytes[r].rows.assign(2, std::vector<Bytes>(count, Bytes(10)));
    bytes[r].kv.assign(2, std::vector<Bytes>(4, Bytes(0)));
    bytes[r].dkv = bytes[r].kv;
    bytes[r].forward_transient.assign(2, std::vector<Bytes>(count, Bytes(0)));
    bytes[r].backward_transient = bytes[r].forward_transient;
    bytes[r].forward_input.assign(count, Bytes(0));
    bytes[r].backward_input.assign(count, Bytes(0));
  }
  for (auto& stage : times[1].forward) stage[0] = Nanos(3);
  const ReplicaPacks replicas[] = {{packs[0], times[0], bytes[0]}, {packs[1], times[1], bytes[1]}};
  const ListScheduler scheduler(replicas);
  const auto result = scheduler.run({});
  EXPECT_EQ(schedule_to_text(result->schedule),
            "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(schedule_to_text(own_order(result->schedule, packs[0])),
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(own_order(result->schedule, packs[1]), result->schedule);
  EXPECT_EQ(result->makespan, Nanos(16));
  // Replica 1 holds three packs of rows on stage 0.
  EXPECT_EQ(result->memory, (std::vector<Bytes>{Bytes(30), Bytes(10)}));
  // With room for two, F2 waits until B0 has run on both replicas.
  EXPECT_EQ(schedule_to_text(scheduler.run({Bytes(20), Bytes(20)})->schedule),
            "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
}

TEST(ListScheduler, OwnOrderOfAReplicaWithoutPacksIsEmpty) {
  Schedule common = schedule_from_text("0F0,0B0\n1F0,1B0\n", "test");
  EXPECT_EQ(own_order(common, {}), (Schedule{{{}, {}}}));
}

}  // namespace
}  // namespace slimpack
