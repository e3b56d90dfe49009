// Plans of several replicas.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/planner/planner.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::highest;
using testing::random_replicated_request;
using testing::small_cost;

bool any_merged(const PlannedStep& step) {
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      if (pack.replicas > 1) return true;
  return false;
}

void require_correct(const PlannedStep& step, const PlanRequest& request, const CostModel& cost) {
  RC_ASSERT(step.plan.lengths == request.lengths);
  RC_ASSERT(step.plan.layout.stages() == request.pp);
  RC_ASSERT(step.plan.replicas.size() == static_cast<std::size_t>(request.dp));
  RC_ASSERT(check_plan(step.plan) == std::vector<std::string>{});
  RC_ASSERT(check_step_schedules(step.plan, step.schedules) == std::vector<std::string>{});
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const auto* pass : {&replica.packs.forward, &replica.packs.backward})
      for (const MicroPack& pack : *pass) RC_ASSERT(pack.replicas <= request.most_merged);
  RC_ASSERT(std::count(request.recompute.begin(), request.recompute.end(), step.recompute) > 0);
  RC_ASSERT(step.lower_bound.count() <= step.prediction.makespan.count());
  RC_ASSERT(step.gap() >= 0);
  const SimulationResult again = predict(step, cost);
  RC_ASSERT(step.prediction.makespan == again.makespan);
  RC_ASSERT(step.prediction.peak_activation == again.peak_activation);
}

/// Also when ranks turn out faster or slower than planned.
void require_within_cap(Rng& rng, PlannedStep step, const PlanRequest& request,
                        const CostModel& cost) {
  if (request.most_merged == 1)
    RC_ASSERT(step_need(step, with_recompute(cost, step.recompute)).bytes <= *request.memory_cap);
  for (int trial = 0; trial < 3; ++trial) {
    RC_ASSERT(highest(predict(step, cost).peak_activation) <= *request.memory_cap);
    step.speed.assign(step.plan.replicas.size(), {});
    for (auto& speeds : step.speed)
      for (std::int32_t s = 0; s < request.pp; ++s) speeds.push_back(0.2 + rng.uniform());
  }
}

RC_GTEST_PROP(PlanReplicas, IsCorrectAndRepeats, (std::uint64_t seed)) {
  Rng rng(seed);
  const PlanRequest request = random_replicated_request(rng);
  const CostModel cost = small_cost(8);
  const PlanOutcome outcome = plan_step(request, cost);
  RC_ASSERT(outcome.step.has_value() && !outcome.does_not_fit.has_value());
  RC_CLASSIFY(any_merged(*outcome.step), "merged");
  require_correct(*outcome.step, request, cost);
  if (rng.below(4) > 0) return;
  const PlanOutcome again = plan_step(request, cost);
  RC_ASSERT(again.step->plan == outcome.step->plan);
  RC_ASSERT(again.step->schedules == outcome.step->schedules);
}

RC_GTEST_PROP(PlanReplicas, KeepsItsCapInAnyTiming, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = random_replicated_request(rng);
  const CostModel cost = small_cost(8);
  PlanRequest packed = request;
  packed.planner = PlannerKind::kPacked;
  const Bytes wanted = highest(plan_step(packed, cost).step->prediction.peak_activation);
  request.memory_cap = wanted * static_cast<std::int64_t>(20 + rng.below(60)) / 100;
  const PlanOutcome outcome = plan_step(request, cost);
  RC_CLASSIFY(outcome.step.has_value(), "fits");
  if (outcome.step) {
    require_correct(*outcome.step, request, cost);
    require_within_cap(rng, *outcome.step, request, cost);
    return;
  }
  RC_ASSERT(outcome.does_not_fit->needed > *request.memory_cap);
  RC_ASSERT(outcome.does_not_fit->message().find('\n') == std::string::npos);
}

RC_GTEST_PROP(PlanReplicas, ARefusalNamesTheLeastCapThatWorks, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = random_replicated_request(rng);
  request.lengths.resize(std::min<std::size_t>(request.lengths.size(), 6));
  request.granularity = Tokens(512);
  const CostModel cost = small_cost(8);
  request.memory_cap = Bytes(1);
  const PlanOutcome refused = plan_step(request, cost);
  RC_ASSERT(refused.does_not_fit.has_value() && !refused.step.has_value());
  const Bytes needed = refused.does_not_fit->needed;
  request.memory_cap = needed;
  const PlanOutcome fits = plan_step(request, cost);
  RC_ASSERT(fits.step.has_value());
  require_correct(*fits.step, request, cost);
  request.memory_cap = needed - Bytes(1);
  RC_ASSERT(plan_step(request, cost).does_not_fit->needed == needed);
}

RC_GTEST_PROP(PlanReplicas, PackedStepsAreCorrect, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = random_replicated_request(rng);
  request.planner = PlannerKind::kPacked;
  request.recompute = {Recompute::kNone};
  request.context = *std::max_element(request.lengths.begin(), request.lengths.end());
  const CostModel cost = small_cost(8);
  const PlanOutcome outcome = plan_step(request, cost);
  RC_ASSERT(outcome.step.has_value());
  RC_ASSERT(!any_merged(*outcome.step));
  require_correct(*outcome.step, request, cost);
}

TEST(PlanReplicas, MergesASequenceThatOutweighsTheOthers) {
  // One sequence of 16,384 tokens and 28 of 256 on four replicas: alone it takes its replica
  // several times the mean.
  PlanRequest request;
  request.lengths.assign(28, Tokens(256));
  request.lengths.emplace_back(16384);
  request.pp = 2;
  request.dp = 4;
  const CostModel cost = small_cost(4);
  const PlannedStep apart = *plan_step(request, cost).step;
  EXPECT_FALSE(any_merged(apart));
  request.most_merged = 4;
  const PlannedStep merged = *plan_step(request, cost).step;
  EXPECT_TRUE(any_merged(merged));
  EXPECT_LT(merged.prediction.makespan * 2, apart.prediction.makespan);
}

TEST(PlanReplicas, MergesWhatOneReplicaCannotHold) {
  // The rows of one long sequence are most of the memory; on four replicas a quarter of them.
  PlanRequest request;
  request.lengths = {Tokens(16384), Tokens(64)};
  request.dp = 4;
  const CostModel cost = small_cost(4);
  request.memory_cap = Bytes(1);
  request.memory_cap = plan_step(request, cost).does_not_fit->needed * 2 / 3;
  EXPECT_TRUE(plan_step(request, cost).does_not_fit.has_value());
  request.most_merged = 4;
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step.has_value());
  EXPECT_TRUE(any_merged(*outcome.step));
  EXPECT_LE(highest(outcome.step->prediction.peak_activation), *request.memory_cap);
}

TEST(PlanReplicas, ComputesAgainWhereMemoryIsScarce) {
  PlanRequest request;
  request.lengths.assign(8, Tokens(2048));
  request.pp = 2;
  const CostModel cost = small_cost();
  request.memory_cap = Bytes(1);
  request.memory_cap = plan_step(request, cost).does_not_fit->needed - Bytes(1);
  EXPECT_TRUE(plan_step(request, cost).does_not_fit.has_value());
  request.recompute = {Recompute::kNone, Recompute::kAttention, Recompute::kMlp, Recompute::kFull};
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step.has_value());
  EXPECT_NE(outcome.step->recompute, Recompute::kNone);
  // With room for everything nothing is computed again, wherever it stands in the list.
  request.memory_cap.reset();
  std::reverse(request.recompute.begin(), request.recompute.end());
  EXPECT_EQ(plan_step(request, cost).step->recompute, Recompute::kNone);
}

TEST(PlanReplicas, GivesSlowReplicasLess) {
  PlanRequest request;
  request.lengths.assign(60, Tokens(512));
  request.dp = 3;
  request.speed = {{1}, {0.25}, {1}};
  const PlannedStep step = *plan_step(request, small_cost(3)).step;
  // 60 · 0.25 / 2.25 = 6.7 of them.
  EXPECT_GE(step.plan.replicas[1].sequences.size(), 6U);
  EXPECT_LE(step.plan.replicas[1].sequences.size(), 7U);
}

}  // namespace
}  // namespace slimpack
