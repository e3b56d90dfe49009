// A measured step with the speed of its machine taken out.
#include "slimpack/planner/replay.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

/// On a machine that takes `times` as long for everything.
Timeline slower(const Timeline& timeline, std::int64_t times) {
  Timeline out = timeline;
  for (Span& span : out.spans) {
    span.start = Nanos(span.start.count() * times);
    span.end = Nanos(span.end.count() * times);
  }
  return out;
}

// Actions that last what was predicted end the step when it was predicted to end.
RC_GTEST_PROP(Replay, GivesThePredictionBack, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = testing::random_replicas(rng);
  request.backward = rng.below(2) == 0 ? BackwardKind::kSplit : BackwardKind::kWhole;
  const Costs cost = small_cost(request.dp);
  const RatedPlan step = *plan_step(request, cost).step;
  const SimulationResult predicted = predict(step, cost);
  const SimulationResult replayed = replay(step, cost, std::span(&predicted.timeline, 1));
  RC_ASSERT(replayed.makespan == predicted.makespan);
  RC_ASSERT(replayed.timeline == predicted.timeline);
}

// One repetition of three on a machine three times as slow, whichever it is, changes nothing.
TEST(Replay, DoesNotSeeARepetitionThatWasDisturbed) {
  const PlanRequest request{.lengths = {Tokens(900), Tokens(2000), Tokens(300)}, .pp = 2, .dp = 2};
  const Costs cost = small_cost(2);
  const RatedPlan step = *plan_step(request, cost).step;
  const SimulationResult predicted = predict(step, cost);
  for (std::size_t disturbed = 0; disturbed < 3; ++disturbed) {
    std::vector<Timeline> measured(3, predicted.timeline);
    measured[disturbed] = slower(predicted.timeline, 3);
    EXPECT_EQ(replay(step, cost, measured).makespan, predicted.makespan);
  }
}

// Two stages of equal layers; the pass of stage 1 takes 10 µs longer than predicted. It is the last
// to run forward and the first to run backward, so with one MicroPack the step is as much longer.
TEST(Replay, TakesDurationsFromTheTimeline) {
  const PlanRequest request{.lengths = {Tokens(64)}, .pp = 2};
  const Costs cost = small_cost();
  const RatedPlan step = *plan_step(request, cost).step;
  const SimulationResult predicted = predict(step, cost);
  Timeline measured = predicted.timeline;
  for (Span& span : measured.spans)
    if (span.rank == 1 && span.kind == SpanKind::kForward) span.end += Nanos(10'000);
  ASSERT_EQ(step.plan.replicas[0].packs.forward.size(), 1U);
  EXPECT_EQ(replay(step, cost, std::span(&measured, 1)).makespan,
            predicted.makespan + Nanos(10'000));
}

// The slower of two tensor-parallel ranks sets the time of their stage.
TEST(Replay, WaitsForTheSlowestTensorParallelRank) {
  const PlanRequest request{.lengths = {Tokens(64)}};
  const Costs cost = small_cost();
  const RatedPlan step = *plan_step(request, cost).step;
  const SimulationResult predicted = predict(step, cost);
  Timeline measured = predicted.timeline;
  measured.ranks = measured.tensor = 2;
  for (Span span : slower(predicted.timeline, 2).spans) {
    span.rank = 1;
    measured.spans.push_back(span);
  }
  EXPECT_EQ(replay(step, cost, std::span(&measured, 1)).makespan,
            Nanos(2 * predicted.makespan.count()));
}

}  // namespace
}  // namespace slimpack
