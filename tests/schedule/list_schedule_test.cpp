#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/list_scheduler.h"
#include "tests/support/list_schedule.h"
#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

using testing::least_memory;
using testing::list_schedule;

struct Case {
  StepPlan plan;
  TaskTimes times;
  TaskBytes bytes;
  int slots;

  [[nodiscard]] const PackPlan& packs() const { return plan.replicas.front().packs; }
};

Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  const int stages = 1 + static_cast<int>(rng.below(5));
  Case out;
  out.plan = testing::random_plan(rng, stages);
  out.times = testing::random_times(rng, out.packs(), stages);
  out.bytes = testing::random_bytes(rng, out.plan, stages);
  out.slots = 1 + static_cast<int>(rng.below(9));
  return out;
}

RC_GTEST_PROP(ListSchedule, IsCorrectForRandomPlansAndCosts, (std::uint64_t seed)) {
  const Case c = random_case(seed);
  const auto schedule = list_schedule(c.packs(), c.times, c.bytes, {{}, c.slots});
  RC_ASSERT(schedule.has_value());
  RC_ASSERT(check_schedule(c.packs(), *schedule, c.slots).empty());
}

RC_GTEST_PROP(ListSchedule, FindsOrdersAtTheLeastMemoryAndNoneBelow, (std::uint64_t seed)) {
  const Case c = random_case(seed);
  std::vector<Bytes> cap = least_memory(c.packs(), c.bytes, c.slots);
  const auto schedule = list_schedule(c.packs(), c.times, c.bytes, {cap, c.slots});
  RC_ASSERT(schedule.has_value());
  RC_ASSERT(check_schedule(c.packs(), *schedule, c.slots).empty());
  cap[seed % cap.size()] -= Bytes(1);
  RC_ASSERT(!list_schedule(c.packs(), c.times, c.bytes, {cap, c.slots}).has_value());
}

RC_GTEST_PROP(ListSchedule, FindsTheSameOrdersUnderEveryCapThatTheyFit, (std::uint64_t seed)) {
  const Case c = random_case(seed);
  const std::vector<Bytes> least = least_memory(c.packs(), c.bytes, c.slots);
  std::vector<Bytes> cap = least;
  for (std::size_t s = 0; s < cap.size(); ++s)
    cap[s] += Bytes(static_cast<std::int64_t>((seed >> s) % 50));
  const ReplicaPacks replica{c.packs(), c.times, c.bytes};
  const ListScheduler scheduler(std::span(&replica, 1), c.slots);
  RC_ASSERT(scheduler.least_memory() == least);
  const Schedule schedule = scheduler.run(cap)->schedule;
  std::vector<Bytes> memory = scheduler.run(cap)->memory;
  RC_ASSERT(memory == schedule_memory(c.packs(), schedule, c.bytes, c.slots));
  for (std::size_t s = 0; s < cap.size(); ++s) {
    RC_ASSERT(memory[s] <= cap[s]);
    memory[s] = std::max(memory[s], least[s]);
  }
  RC_ASSERT(list_schedule(c.packs(), c.times, c.bytes, {memory, c.slots}) == schedule);
}

TEST(ListSchedule, EqualPacksOnTwoStagesRunAheadAsFarAsTheyCan) {
  // Four whole sequences, forward 1, backward 2, no transfer time. Stage 0 runs all its forwards
  // until the first gradient arrives: F0 [0,1), then stage 1 F0 [1,2) B0 [2,4). Stage 0 is free at
  // 1, 2, 3 (F1 F2 F3) and takes B0 at 4. Stage 1 takes a backward as soon as it has the rows.
  PackPlan packs;
  for (std::size_t q = 0; q < 4; ++q)
    packs.forward.push_back({{{SequenceId(q), Tokens(0), Tokens(5)}}});
  packs.backward = packs.forward;
  TaskTimes times;
  times.forward.assign(2, std::vector<Nanos>(4, Nanos(1)));
  times.backward.assign(2, std::vector<Nanos>(4, Nanos(2)));
  times.forward_transfer.assign(4, Nanos(0));
  times.backward_transfer.assign(4, Nanos(0));
  times.reduce.assign(2, Nanos(0));
  times.step_end.assign(2, Nanos(0));
  TaskBytes bytes;
  bytes.rows.assign(2, std::vector<Bytes>(4, Bytes(10)));
  bytes.kv.assign(2, std::vector<Bytes>(4, Bytes(0)));
  bytes.dkv = bytes.kv;
  bytes.forward_transient = bytes.kv;
  bytes.backward_transient = bytes.kv;
  bytes.forward_input.assign(4, Bytes(0));
  bytes.backward_input.assign(4, Bytes(0));
  EXPECT_EQ(schedule_to_text(*list_schedule(packs, times, bytes)),
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  // Two packs of rows on stage 0: after F0 F1 it has to wait for B0.
  EXPECT_EQ(schedule_to_text(*list_schedule(packs, times, bytes, {{Bytes(20), Bytes(20)}, 8})),
            "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  EXPECT_FALSE(list_schedule(packs, times, bytes, {{Bytes(9), Bytes(20)}, 8}).has_value());
}

}  // namespace
}  // namespace slimpack
