#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/sim/simulate.h"
#include "tests/sim/random_case.h"
#include "tests/support/simulate_packs.h"

namespace slimpack {
namespace {

using testing::simulate;

RC_GTEST_PROP(LowerBound, IsBetweenTheWorkOfAStageAndTheMakespan, (std::uint64_t seed)) {
  Rng rng(seed);
  const testing::SimulationCase c = testing::random_simulation_case(rng);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, false});
  const Nanos bound = makespan_lower_bound(c.packs(), c.times);
  RC_ASSERT(bound <= result.makespan);
  for (std::size_t s = 0; s < result.busy.size(); ++s) {
    // Each backward whole or split, whichever is shorter.
    Nanos work = c.times.reduce[s] + c.times.step_end[s];
    for (const Nanos forward : c.times.forward[s]) work += forward;
    for (std::size_t b = 0; b < c.times.backward[s].size(); ++b)
      work += std::min(c.times.backward[s][b],
                       c.times.input_gradient[s][b] + c.times.weight_gradient[s][b]);
    RC_ASSERT(work <= bound);
  }
  RC_ASSERT(result.bubble_ratio >= 0 && result.bubble_ratio <= 1);
}

TEST(LowerBound, CountsFillDrainChainAndStepEnd) {
  // One sequence in two packs each way, two stages, forward 3 and 5, backward 7 and 2, hops 1.
  // Fill of stage 1: 3 + 1; its work 17; drain 2 + 1: 24. Chain of backward pack 0: both forwards
  // on stage 0 (8), hop, forward 1 on stage 1 (5), backward 0 there (7), hop, backward on stage 0
  // (7):
  // 29. The optimizer adds 10.
  PackPlan packs;
  const Slice head{SequenceId(0UL), Tokens(0), Tokens(4)};
  const Slice tail{SequenceId(0UL), Tokens(4), Tokens(8)};
  packs.forward = {{{head}}, {{tail}}};
  packs.backward = {{{tail}}, {{head}}};
  TaskTimes times;
  times.forward.assign(2, {Nanos(3), Nanos(5)});
  times.backward.assign(2, {Nanos(7), Nanos(2)});
  times.forward_transfer.assign(2, Nanos(1));
  times.backward_transfer.assign(2, Nanos(1));
  times.reduce = {Nanos(0), Nanos(0)};
  times.step_end = {Nanos(4), Nanos(10)};
  EXPECT_EQ(makespan_lower_bound(packs, times), Nanos(39));
  times.backward.assign(2, {Nanos(7), Nanos(20)});
  // Now backward pack 1 ends the chain: 8 + 1 + 5 + 20 + 1 + 20 = 55, and 10.
  EXPECT_EQ(makespan_lower_bound(packs, times), Nanos(65));
  // Reducing the first stage's gradients takes 6 after the chain.
  times.reduce = {Nanos(6), Nanos(0)};
  EXPECT_EQ(makespan_lower_bound(packs, times), Nanos(71));
}

}  // namespace
}  // namespace slimpack
