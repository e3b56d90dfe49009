#include "slimpack/sim/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "tests/sim/pass_of.h"
#include "tests/sim/random_case.h"
#include "tests/support/simulate_packs.h"
#include "tests/support/wait_graph.h"

namespace slimpack {
namespace {

using testing::random_simulation_case;
using testing::simulate;
using testing::SimulationCase;

RC_GTEST_PROP(Simulate, AgreesWithTheLongestPathsOfTheGraph, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const std::vector<TaskTimes> times{c.times};
  const testing::WaitGraph graph(c.plan, std::span(&c.schedule, 1), times, c.slots);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  std::int64_t work = 0;
  std::map<Action, Span> spans;
  for (const Span& span : result.timeline.spans)
    if (const auto pass = testing::pass_of(span.kind))
      spans[{StageId(span.rank), *pass, span.pack}] = span;
  for (const auto& actions : c.schedule.ranks)
    for (const Action& action : actions) {
      work = std::max(work, graph.put(0, action) + c.times.reduce[action.stage.index()].count());
      const std::int64_t duration = graph.duration(0, action);
      if (duration == 0) continue;  // nothing to draw
      RC_ASSERT(spans.at(action).start.count() == graph.start(0, action));
      RC_ASSERT(spans.at(action).end.count() == graph.start(0, action) + duration);
    }
  const Nanos step_end = *std::max_element(c.times.step_end.begin(), c.times.step_end.end());
  RC_ASSERT(result.makespan.count() == work + step_end.count());
}

RC_GTEST_PROP(Simulate, SpansOfARankFollowEachOtherWithoutHoles, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  RC_ASSERT(result.timeline.ranks == c.stages());
  std::vector<std::int64_t> at(static_cast<std::size_t>(c.stages()), 0);
  std::vector<std::int64_t> busy(at);
  for (const Span& span : result.timeline.spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    RC_ASSERT(span.start.count() == at[rank]);
    RC_ASSERT(span.end > span.start);
    at[rank] = span.end.count();
    if (is_busy(span.kind)) busy[rank] += span.end.count() - span.start.count();
  }
  RC_ASSERT(*std::max_element(at.begin(), at.end()) == result.makespan.count());
  for (std::size_t s = 0; s < busy.size(); ++s) RC_ASSERT(busy[s] == result.busy[s].count());
}

RC_GTEST_PROP(Simulate, RatingAloneGivesTheSameFigures, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  const auto full = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  const auto rating = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, false});
  RC_ASSERT(rating.makespan == full.makespan);
  RC_ASSERT(rating.busy == full.busy);
  RC_ASSERT(rating.peak_activation == full.peak_activation);
  RC_ASSERT(rating.timeline.peak_activation == full.peak_activation);
  RC_ASSERT(rating.timeline.spans.empty() && rating.timeline.memory.empty());
}

TEST(Simulate, OneFOneBOfEqualPacksTakesTheKnownTime) {
  // m equal packs on p stages, forward 1, backward 2: (m + p − 1) · 3; busy m · 3 per stage, so the
  // bubble ratio is (p − 1) / (m + p − 1) (Narayanan et al. 2021).
  constexpr int kStages = 4;
  constexpr std::size_t kPacks = 8;
  PackPlan packs;
  for (std::size_t q = 0; q < kPacks; ++q)
    packs.forward.push_back({{{SequenceId(q), Tokens(0), Tokens(5)}}});
  packs.backward = packs.forward;
  TaskTimes times;
  times.forward.assign(kStages, std::vector<Nanos>(kPacks, Nanos(1)));
  times.backward.assign(kStages, std::vector<Nanos>(kPacks, Nanos(2)));
  times.forward_transfer.assign(kPacks, Nanos(0));
  times.backward_transfer.assign(kPacks, Nanos(0));
  times.reduce.assign(kStages, Nanos(0));
  times.step_end.assign(kStages, Nanos(0));
  TaskBytes bytes;
  bytes.rows.assign(kStages, std::vector<Bytes>(kPacks, Bytes(1)));
  bytes.kv.assign(kStages, std::vector<Bytes>(kPacks, Bytes(0)));
  bytes.dkv = bytes.kv;
  bytes.forward_transient = bytes.kv;
  bytes.backward_transient = bytes.kv;
  bytes.forward_input.assign(kPacks, Bytes(0));
  bytes.backward_input.assign(kPacks, Bytes(0));
  const auto result = simulate(packs, one_f_one_b(packs, kStages), times, bytes);
  EXPECT_EQ(result.makespan, Nanos(33));
  EXPECT_DOUBLE_EQ(result.bubble_ratio, 3.0 / 11.0);
  EXPECT_EQ(result.busy, std::vector<Nanos>(kStages, Nanos(24)));
  // Stage s holds the rows of its p − s − 1 warm-up packs and of the pack that it runs.
  EXPECT_EQ(result.peak_activation, (std::vector<Bytes>{Bytes(4), Bytes(3), Bytes(2), Bytes(1)}));
  // Work of a stage 24; the last one cannot start before 3 nor be the end before 6 more: 33.
  EXPECT_EQ(makespan_lower_bound(packs, times), Nanos(33));
}

}  // namespace
}  // namespace slimpack
