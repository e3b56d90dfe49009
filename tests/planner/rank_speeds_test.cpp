#include "slimpack/planner/speed_tracker.h"

#include <gtest/gtest.h>

#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

using Speeds = std::vector<std::vector<double>>;

TEST(StageSpeeds, AreThoseOfTheSlowestTensorParallelRank) {
  // Two replicas of two stages of two ranks; ranks 2 and 3 are replica 0's stage 1.
  const std::vector<double> by_rank{1, 0.9, 0.8, 2, 3, 4, 0.5, 0.6};
  EXPECT_EQ(stage_speeds(by_rank, {2, 2, 2}), (Speeds{{0.9, 0.8}, {3, 0.5}}));
  EXPECT_EQ(stage_speeds(by_rank, {4, 2, 1}), (Speeds{{1, 0.9, 0.8, 2}, {3, 4, 0.5, 0.6}}));
  EXPECT_EQ(stage_speeds({}, {2, 2, 2}), Speeds{});
}

TEST(StageSpeeds, OfRanksThatAreAddedAreOne) {
  const std::vector<double> by_rank{2, 3, 0.5};
  EXPECT_EQ(stage_speeds(by_rank, {1, 3, 2}), (Speeds{{2}, {0.5}, {1}}));
  EXPECT_EQ(stage_speeds(std::vector<double>{2, 3, 4}, {1, 2, 2}), (Speeds{{2}, {1}}));
}

/// When the last forward or backward of a rank of the timeline ends.
Nanos busy_of(const SimulationResult& result, std::int32_t rank) {
  Nanos busy;
  for (const Span& span : result.timeline.spans)
    if (span.rank == rank && (span.kind == SpanKind::kForward || span.kind == SpanKind::kBackward))
      busy = busy + (span.end - span.start);
  return busy;
}

TEST(StageSpeeds, GiveASlowReplicaLessAndItsActionsMoreTime) {
  PlanRequest request;
  request.lengths.assign(30, Tokens(512));
  request.dp = 2;
  const Costs cost = testing::small_cost(2);
  request.speed = stage_speeds(std::vector<double>{1, 0.5}, {1, 2, 1});
  const RatedPlan step = *plan_step(request, cost).step;
  // 30 · 0.5 / 1.5.
  EXPECT_EQ(step.plan.replicas[1].sequences.size(), 10U);
  const SimulationResult slow = predict(step, cost);
  RatedPlan even = step;
  even.speed.clear();
  const SimulationResult fast = predict(even, cost);
  EXPECT_EQ(busy_of(slow, 0), busy_of(fast, 0));
  // Each action is rounded to a nanosecond.
  EXPECT_NEAR(static_cast<double>(busy_of(slow, 1).count()),
              2 * static_cast<double>(busy_of(fast, 1).count()), 1000);
}

}  // namespace
}  // namespace slimpack
