#include "slimpack/planner/baseline_step.h"
#include "slimpack/cost/abilities.h"

#include <gtest/gtest.h>

#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

/// Long and short sequences in turn.
PlanRequest mixed_request() {
  PlanRequest request;
  for (int i = 0; i < 12; ++i) request.lengths.push_back(Tokens(i % 2 == 0 ? 2000 : 100 + 10 * i));
  request.pp = 3;
  request.context = Tokens(2048);
  return request;
}

TEST(BaselineStep, OfDynaPipeKeepsAMemoryCapThatItsPacksCanKeep) {
  const Costs cost = testing::small_cost();
  PlanRequest request = mixed_request();
  const Baseline& dynapipe = baseline_named("dynapipe");
  const RatedPlan free = baseline_step(dynapipe, request, cost);
  const Bytes wanted = step_need(free, cost).bytes;
  request.memory_cap = wanted * 3 / 4;
  const RatedPlan capped = baseline_step(dynapipe, request, cost);
  EXPECT_LE(step_need(capped, cost).bytes, *request.memory_cap);
  EXPECT_GE(capped.prediction.makespan, free.prediction.makespan);
  // A byte is too little for any order: the packs run with the least that they need.
  request.memory_cap = Bytes(1);
  const RatedPlan least = baseline_step(dynapipe, request, cost);
  EXPECT_GT(step_need(least, cost).bytes, Bytes(1));
  EXPECT_LE(step_need(least, cost).bytes, step_need(capped, cost).bytes);
}

TEST(BaselineStep, ComputesAgainOnlyWhereTheCapDemandsIt) {
  const Costs cost = testing::small_cost();
  PlanRequest request = mixed_request();
  request.recompute = {Recompute::kElementwise, Recompute::kFull};
  const Baseline& best_fit = baseline_named("best-fit");
  const RatedPlan roomy = baseline_step(best_fit, request, cost);
  EXPECT_EQ(roomy.plan.recompute, RecomputeByLayer(6, Recompute::kElementwise));
  request.memory_cap = step_need(roomy, cost).bytes - Bytes(1);
  const RatedPlan tight = baseline_step(best_fit, request, cost);
  EXPECT_EQ(tight.plan.recompute, RecomputeByLayer(6, Recompute::kFull));
  EXPECT_LE(step_need(tight, cost).bytes, *request.memory_cap);
}

TEST(BaselineStep, OfBestFitIsWhatPackedMeansToThePlanner) {
  const Costs cost = testing::small_cost();
  PlanRequest request = mixed_request();
  request.recompute = abilities(cost).recomputations;
  request.mixed_recompute = true;
  request.planner = PlannerKind::kPacked;
  // A byte less than what the cheapest policy needs, so that another one is taken: for all layers,
  // though a search of ours might mix two.
  const Bytes wanted = step_need(*plan_step(request, cost).step, cost).bytes;
  request.memory_cap = wanted - Bytes(1);
  const RatedPlan packed = *plan_step(request, cost).step;
  const RatedPlan compared = baseline_step(baseline_named("best-fit"), request, cost);
  EXPECT_EQ(packed.plan, compared.plan);
  EXPECT_EQ(packed.schedules, compared.schedules);
  EXPECT_EQ(packed.prediction.makespan, compared.prediction.makespan);
}

TEST(BaselineStep, RunsOnTheSpeedsOfTheRequest) {
  const Costs cost = testing::small_cost();
  PlanRequest request = mixed_request();
  const Baseline& best_fit = baseline_named("best-fit");
  const Nanos even = baseline_step(best_fit, request, cost).prediction.makespan;
  request.speed = {{1, 0.5, 1}};
  EXPECT_GT(baseline_step(best_fit, request, cost).prediction.makespan, even);
}

TEST(BaselineStep, RefusesWhatPlanStepRefuses) {
  const Costs cost = testing::small_cost();
  PlanRequest request = mixed_request();
  const auto plan = [&] { (void)baseline_step(baseline_named("balanced"), request, cost); };
  request.context = Tokens(1999);
  expect_invalid_input(plan, {"sequence 0 has 2000 tokens", "a pack holds 1999"});
  request.lengths.clear();
  expect_invalid_input(plan, {"no sequences"});
}

}  // namespace
}  // namespace slimpack
