// Steps whose ranks exchange attention.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/schedule/ticks.h"
#include "tests/sim/expect_starts.h"

namespace slimpack {
namespace {

using testing::StepCase;

TEST(Exchange, LetsBothActionsStartTogether) {
  // One sequence in two slices on two ranks; a forward takes 2, a backward 4. F1 on rank 0 and F0
  // on rank 1 start at 2 in any case; but F1 there takes 3 instead, and rank 1 waits for it.
  ReplicaPacks tasks;
  for (const int begin : {0, 1})
    tasks.packs.forward.push_back({{Slice{SequenceId(0), Tokens(begin), Tokens(begin + 1)}}});
  tasks.packs.backward = {tasks.packs.forward[1], tasks.packs.forward[0]};
  tasks.times.forward = {{Nanos(2), Nanos(3)}, {Nanos(2), Nanos(2)}};
  tasks.times.backward.assign(2, std::vector<Nanos>(2, Nanos(4)));
  tasks.times.forward_transfer.resize(2);
  tasks.times.backward_transfer.resize(2);
  tasks.times.reduce.resize(2);
  tasks.times.step_end.resize(2);
  Schedule order = sliced_one_f_one_b(tasks.packs, 2, 2);
  const auto makespan = [&] {
    tasks.bytes.rows.assign(2, std::vector<Bytes>(2));
    tasks.bytes.kv = tasks.bytes.dkv = std::vector(2, std::vector<Bytes>(1));
    tasks.bytes.forward_transient = tasks.bytes.backward_transient = tasks.bytes.rows;
    tasks.bytes.forward_input = tasks.bytes.backward_input = std::vector<Bytes>(2);
    return simulate(std::span(&tasks, 1), std::span(&order, 1)).makespan;
  };
  // Rank 0: F0 [0, 2], F1 [2, 5]. Rank 1: F0 [2, 4], F1 [5, 7], B0 [7, 11], B1 [11, 15]. Rank 0: B0
  // [11, 15], B1 [15, 19].
  EXPECT_EQ(makespan(), Nanos(19));
  // With rank 1 slower at the start: its F0 takes part in nothing, B1 there waits for B0 on rank 0.
  order.exchanges = {{{StageId(0), Pass::kForward, PackId(1)},
                      {StageId(1), Pass::kForward, PackId(0)},
                      Tokens(1)}};
  tasks.times.forward_transfer[0] = Nanos(5);
  // F0 on rank 1 can start at 7 and F1 on rank 0 with it: F1 [7, 10] there, [15, 17] on rank 1
  // (its transfer is 0: [10, 12]). B0 [12, 16], B1 [16, 20]; rank 0 ends at 24.
  EXPECT_EQ(makespan(), Nanos(24));
}

/// On two ranks or more; in half of the cases with a vocabulary that is spread.
StepCase random_case(std::uint64_t seed) {
  Rng rng(seed);
  const auto ranks = 2 + static_cast<std::int32_t>(rng.below(3));
  StepCase step =
      testing::random_step_case(rng, ranks, 1 + static_cast<std::int32_t>(rng.below(3)));
  if (rng.below(2) == 0) {
    step.plan.layout.spread_vocabulary = true;
    step.schedules = with_vocabulary(step.plan, std::move(step.schedules), step.slots);
    for (std::size_t r = 0; r < step.plan.replicas.size(); ++r)
      for (const Pass pass : kJointPasses) {
        const std::size_t packs = step.plan.replicas[r].packs.of(pass).size();
        step.times[r].joint[joint_index(pass)].assign(packs, Nanos(3));
        step.bytes[r].joint_transient[joint_index(pass)].resize(packs);
      }
  }
  const auto exchanges = context_exchanges(step.plan, step.schedules, step.slots);
  for (std::size_t r = 0; r < exchanges.size(); ++r) step.schedules[r].exchanges = exchanges[r];
  return step;
}

RC_GTEST_PROP(Exchange, FitsAnyOrder, (std::uint64_t seed)) {
  const StepCase step = random_case(seed);
  RC_ASSERT(check_step(step.plan, step.schedules, step.slots) == std::vector<std::string>{});
  const std::vector<LoweredSchedule> lowered = lower(step.tasks(), step.schedules, step.slots);
  for (std::size_t r = 0; r < lowered.size(); ++r)
    RC_ASSERT(lowered[r].exchanges == step.schedules[r].exchanges);
  RC_ASSERT(check_lowered(step.plan, lowered, step.slots) == std::vector<std::string>{});
}

RC_GTEST_PROP(Exchange, StartsAsTheDependenciesSay, (std::uint64_t seed)) {
  const StepCase step = random_case(seed);
  testing::expect_starts(step, step.simulated(true).timeline);
}

}  // namespace
}  // namespace slimpack
