#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/sim/simulate.h"
#include "tests/sim/pass_of.h"
#include "tests/sim/random_step_case.h"
#include "tests/support/wait_graph.h"

namespace slimpack {
namespace {

using testing::MergedAt;
using testing::random_step_case;
using testing::StepCase;
using testing::WaitGraph;

/// Where the actions of rank p of a replica's pipeline end.
std::int64_t rank_end(const StepCase& c, const WaitGraph& graph, std::size_t r, std::size_t p) {
  const auto& actions = c.schedules[r].ranks[p];
  return actions.empty() ? 0 : graph.put(r, actions.back());
}

/// When every gradient is reduced: some time after each replica has run its stages.
std::int64_t all_reduced(const StepCase& c, const WaitGraph& graph) {
  std::int64_t reduced = 0;
  for (std::size_t p = 0; p < c.ranks(); ++p)
    for (std::size_t r = 0; r < c.plan.replicas.size(); ++r)
      reduced = std::max(reduced, rank_end(c, graph, r, p) + c.times[r].reduce[p].count());
  return reduced;
}

RC_GTEST_PROP(SimulateStep, AgreesWithTheLongestPathsOfTheGraph, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  RC_ASSERT(check_plan(c.plan).empty());
  const WaitGraph graph(c.plan, c.schedules, c.times, c.slots);
  RC_ASSERT(!graph.deadlocks());
  const SimulationResult result = c.simulated(true);
  std::int64_t optimizer = 0;
  for (const TaskTimes& times : c.times)
    for (const Nanos end : times.step_end) optimizer = std::max(optimizer, end.count());
  RC_ASSERT(result.makespan.count() == all_reduced(c, graph) + optimizer);

  std::map<std::pair<std::int32_t, Action>, Span> spans;
  for (const Span& span : result.timeline.spans)
    if (const auto pass = testing::pass_of(span.kind)) {
      spans[{span.rank, {span.stage, *pass, span.pack}}] = span;
    }
  for (std::size_t r = 0; r < c.schedules.size(); ++r)
    for (std::size_t p = 0; p < c.ranks(); ++p)
      for (const Action& action : c.schedules[r].ranks[p]) {
        const std::int64_t duration = graph.duration(r, action);
        if (duration == 0) continue;  // nothing to draw
        const Span& span = spans.at({static_cast<std::int32_t>(r * c.ranks() + p), action});
        RC_ASSERT(span.start.count() == graph.start(r, action));
        RC_ASSERT(span.end.count() == graph.start(r, action) + duration);
      }
}

RC_GTEST_PROP(SimulateStep, SpansOfARankFollowEachOtherAndMakeUpItsFigures, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  const SimulationResult result = c.simulated(true);
  const std::size_t ranks = c.plan.replicas.size() * c.ranks();
  RC_ASSERT(static_cast<std::size_t>(result.timeline.ranks) == ranks);
  std::vector<std::int64_t> at(ranks, 0);
  std::vector<std::int64_t> busy(ranks, 0);
  for (const Span& span : result.timeline.spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    RC_ASSERT(span.start.count() == at[rank]);
    RC_ASSERT(span.end > span.start);
    at[rank] = span.end.count();
    if (is_busy(span.kind)) busy[rank] += span.end.count() - span.start.count();
  }
  RC_ASSERT(*std::max_element(at.begin(), at.end()) == result.makespan.count());
  std::int64_t all = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RC_ASSERT(busy[rank] == result.busy[rank].count());
    all += busy[rank];
  }
  RC_PRE(result.makespan > Nanos(0));
  const double whole = static_cast<double>(ranks) * static_cast<double>(result.makespan.count());
  RC_ASSERT(result.bubble_ratio == 1 - static_cast<double>(all) / whole);
  RC_ASSERT(result.bubble_ratio >= 0 && result.bubble_ratio <= 1);
  RC_ASSERT(c.lower_bound() <= result.makespan);
}

RC_GTEST_PROP(SimulateStep, RatingAloneGivesTheSameFigures, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  const SimulationResult full = c.simulated(true);
  const SimulationResult rating = c.simulated(false);
  RC_ASSERT(rating.makespan == full.makespan);
  RC_ASSERT(rating.busy == full.busy);
  RC_ASSERT(rating.peak_activation == full.peak_activation);
  RC_ASSERT(rating.timeline.spans.empty() && rating.timeline.memory.empty());
}

RC_GTEST_PROP(SimulateStep, NoRankHoldsMoreThanItsOrderMayInAnyTiming, (std::uint64_t seed)) {
  const StepCase c = random_step_case(seed);
  const SimulationResult result = c.simulated(true);
  std::vector<Bytes> last(result.peak_activation.size());
  for (const MemorySample& sample : result.timeline.memory) {
    const auto rank = static_cast<std::size_t>(sample.rank);
    last[rank] = sample.bytes;
    RC_ASSERT(sample.bytes <= result.peak_activation[rank]);
  }
  for (std::size_t r = 0; r < c.plan.replicas.size(); ++r) {
    const std::vector<Bytes> most =
        schedule_memory(c.plan.replicas[r].packs, c.schedules[r], c.bytes[r], c.slots);
    for (std::size_t p = 0; p < c.ranks(); ++p) {
      RC_ASSERT(result.peak_activation[r * c.ranks() + p] <= most[p]);
      RC_ASSERT(last[r * c.ranks() + p] == Bytes(0));
    }
  }
}

/// A list schedule of a step, under a random cap, with what it says of itself.
struct ListedCase {
  StepCase step;
  ListScheduler::Result listed;
};

ListedCase random_listed_case(Rng& rng) {
  StepCase c;
  auto ranks = 1 + static_cast<std::int32_t>(rng.below(4));
  const std::int32_t stages_per_rank =
      rng.below(3) == 0 ? 2 + static_cast<std::int32_t>(rng.below(2)) : 1;
  if (stages_per_rank > 1) ranks = std::max(ranks, 2);
  c.slots = (stages_per_rank > 1 ? 2 : 1) + static_cast<int>(rng.below(3));
  c.plan = testing::random_step(rng, ranks * stages_per_rank, MergedAt::kSameIndex);
  c.plan.layout.placement = StagePlacement::looped(ranks, stages_per_rank);
  c.times = testing::random_step_times(rng, c.plan);
  c.bytes = testing::random_step_bytes(rng, c.plan);
  std::vector<ReplicaPacks> replicas;
  for (std::size_t r = 0; r < c.plan.replicas.size(); ++r)
    replicas.push_back({c.plan.replicas[r].packs, c.times[r], c.bytes[r]});
  const ListScheduler scheduler(replicas, c.slots, stages_per_rank);
  std::vector<Bytes> cap = scheduler.least_memory();
  for (Bytes& bytes : cap) bytes += Bytes(static_cast<std::int64_t>(rng.below(100)));
  const auto split_from =
      static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(scheduler.backwards()) + 2));
  const auto listed =
      scheduler.run(cap, {rng.below(2) == 0 ? Pass::kForward : Pass::kBackward, split_from});
  for (const ReplicaPlan& replica : c.plan.replicas)
    c.schedules.push_back(own_order(listed->schedule, replica.packs));
  return {std::move(c), *listed};
}

RC_GTEST_PROP(SimulateStep, IsNoSlowerThanItsListScheduleSays, (std::uint64_t seed)) {
  Rng rng(seed);
  auto [c, listed] = random_listed_case(rng);
  for (TaskTimes& times : c.times) {
    times.reduce.assign(c.ranks(), Nanos(0));
    times.step_end.assign(c.ranks(), Nanos(0));
  }
  RC_ASSERT(c.simulated(false).makespan <= listed.makespan);
}

RC_GTEST_PROP(SimulateStep, ListSchedulesHoldTheirMemoryInEveryTiming, (std::uint64_t seed)) {
  Rng rng(seed);
  auto [c, listed] = random_listed_case(rng);
  for (int trial = 0; trial < 4; ++trial) {
    if (trial > 0) c.times = testing::random_step_times(rng, c.plan);
    const SimulationResult result = c.simulated(false);
    for (std::size_t rank = 0; rank < result.peak_activation.size(); ++rank)
      RC_ASSERT(result.peak_activation[rank] <= listed.memory[rank % c.ranks()]);
  }
}

TEST(SimulateStep, AMergedPackWaitsForTheLastAndLastsAsLongAsTheSlowest) {
  // One stage, two replicas. Replica 0: its own F0 takes 3, then merged F1; replica 1 only has the
  // merged pack, as its F0. Forward of the merged pack 4 and 6, backward 8 and 5; backward of
  // replica 0's own pack 2.
  //   replica 0: F0 [0,3) F1 [3,9) B0 (merged) [9,17) B1 [17,19), reduce [19,21)
  //   replica 1: waits,   F0 [3,9) B0          [9,17), waits,     reduce [19,21)
  // 2 after the end of replica 0 and 3 after that of replica 1. Then the optimizers, 1 and 4, from
  // 21: 25.
  StepCase c;
  c.plan.lengths = {Tokens(8), Tokens(4)};
  c.plan.layout.layer_begin = {0, 1};
  c.plan.replicas.resize(2);
  const MicroPack merged{{{SequenceId(0), Tokens(0), Tokens(8)}}, 2};
  const MicroPack own{{{SequenceId(1), Tokens(0), Tokens(4)}}};
  c.plan.replicas[0] = {{SequenceId(0), SequenceId(1)}, {{own, merged}, {merged, own}}};
  c.plan.replicas[1] = {{SequenceId(0)}, {{merged}, {merged}}};
  ASSERT_EQ(check_plan(c.plan), std::vector<std::string>{});
  c.schedules = {schedule_from_text("0F0,0F1,0B0,0B1\n", "test"),
                 schedule_from_text("0F0,0B0\n", "test")};
  c.slots = 8;
  Rng rng(1);
  c.times = testing::random_step_times(rng, c.plan);
  c.bytes = testing::random_step_bytes(rng, c.plan);
  c.times[0].forward = {{Nanos(3), Nanos(4)}};
  c.times[0].backward = {{Nanos(8), Nanos(2)}};
  c.times[1].forward = {{Nanos(6)}};
  c.times[1].backward = {{Nanos(5)}};
  c.times[0].reduce = {Nanos(2)};
  c.times[1].reduce = {Nanos(3)};
  c.times[0].step_end = {Nanos(1)};
  c.times[1].step_end = {Nanos(4)};
  const SimulationResult result = c.simulated(true);
  EXPECT_EQ(result.makespan, Nanos(25));
  EXPECT_EQ(result.busy, (std::vector<Nanos>{Nanos(19 + 2 + 1), Nanos(14 + 2 + 4)}));
  EXPECT_DOUBLE_EQ(result.bubble_ratio, 1 - 42.0 / 50);
  using enum SpanKind;
  const auto span = [](std::int32_t rank, SpanKind kind, std::int32_t pack, std::int64_t start,
                       std::int64_t end) {
    return Span{rank, kind, PackId(pack), StageId(0), Nanos(start), Nanos(end)};
  };
  EXPECT_EQ(result.timeline.spans,
            (std::vector<Span>{span(0, kForward, 0, 0, 3), span(0, kForward, 1, 3, 9),
                               span(0, kBackward, 0, 9, 17), span(0, kBackward, 1, 17, 19),
                               span(0, kReduce, -1, 19, 21), span(0, kOptimizer, -1, 21, 22),
                               span(1, kWaitReceive, 0, 0, 3), span(1, kForward, 0, 3, 9),
                               span(1, kBackward, 0, 9, 17), span(1, kWaitReceive, -1, 17, 19),
                               span(1, kReduce, -1, 19, 21), span(1, kOptimizer, -1, 21, 25)}));
}

TEST(SimulateStep, ReplicasWithoutWorkWaitForTheOthers) {
  StepCase c;
  c.plan.lengths = {Tokens(8)};
  c.plan.layout.layer_begin = {0, 1};
  c.plan.replicas.resize(2);
  const MicroPack own{{{SequenceId(0), Tokens(0), Tokens(8)}}};
  c.plan.replicas[1] = {{SequenceId(0)}, {{own}, {own}}};
  c.schedules = {Schedule{{{}}}, schedule_from_text("0F0,0B0\n", "test")};
  c.slots = 8;
  Rng rng(1);
  c.times = testing::random_step_times(rng, c.plan);
  c.bytes = testing::random_step_bytes(rng, c.plan);
  c.times[1].forward = {{Nanos(10)}};
  c.times[1].backward = {{Nanos(20)}};
  for (TaskTimes& times : c.times) {
    times.reduce = {Nanos(3)};
    times.step_end = {Nanos(4)};
  }
  const SimulationResult result = c.simulated(false);
  EXPECT_EQ(result.makespan, Nanos(37));
  EXPECT_EQ(result.busy, (std::vector<Nanos>{Nanos(7), Nanos(37)}));
  EXPECT_EQ(result.peak_activation[0], Bytes(0));
}

TEST(SimulateStep, TheReductionFollowsTheActionThatComesLast) {
  StepCase c;
  c.plan.lengths = {Tokens(8)};
  c.plan.layout.layer_begin = {0, 1};
  const MicroPack own{{{SequenceId(0), Tokens(0), Tokens(8)}}};
  c.plan.replicas = {{{SequenceId(0)}, {{own}, {own}}}};
  c.slots = 8;
  Rng rng(1);
  c.times = testing::random_step_times(rng, c.plan);
  c.bytes = testing::random_step_bytes(rng, c.plan);
  TaskTimes& times = c.times.front();
  times.forward = {{Nanos(10)}};
  times.backward = {{Nanos(20)}};
  times.input_gradient = {{Nanos(13)}};
  times.weight_gradient = {{Nanos(8)}};
  times.reduce = {Nanos(3)};
  times.reduce_after_weights = {Nanos(5)};
  times.step_end = {Nanos(0)};
  c.schedules = {schedule_from_text("0F0,0B0\n", "test")};
  EXPECT_EQ(c.simulated(false).makespan, Nanos(10 + 20 + 3));
  c.schedules = {schedule_from_text("0F0,0I0,0W0\n", "test")};
  EXPECT_EQ(c.simulated(false).makespan, Nanos(10 + 13 + 8 + 5));
}

}  // namespace
}  // namespace slimpack
