// Solvers and time budgets: never a longer step than the usual search, and sometimes a shorter one.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::small_cost;

/// A few sequences of a few granules, on up to three replicas that may merge.
PlanRequest few_granules(Rng& rng) {
  PlanRequest request;
  request.lengths.resize(1 + rng.below(6));
  for (Tokens& length : request.lengths)
    length = Tokens(1 + static_cast<std::int64_t>(rng.below(std::uint64_t{32} << rng.below(4))));
  request.pp = 1 + static_cast<std::int32_t>(rng.below(3));
  request.dp = 1 + static_cast<std::int32_t>(rng.below(3));
  request.most_merged = request.dp > 1 && rng.below(2) == 0 ? 2 : 1;
  return request;
}

void require_correct(const PlannedStep& step, const PlanRequest& request, const CostModel& cost) {
  RC_ASSERT(check_plan(step.plan) == std::vector<std::string>{});
  RC_ASSERT(check_step_schedules(step.plan, step.schedules).empty());
  RC_ASSERT(predict(step, cost).makespan == step.prediction.makespan);
  RC_ASSERT(step.lower_bound <= step.prediction.makespan);
  if (request.memory_cap) RC_ASSERT(step_need(step, cost).bytes <= *request.memory_cap);
}

RC_GTEST_PROP(Solver, ExactAnswersAreNeverWorseAndRepeat, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = few_granules(rng);
  const CostModel cost = small_cost(request.dp);
  const PlannedStep fluid = *plan_step(request, cost).step;
  request.solver = rng.below(2) == 0 ? SolverKind::kAuto : SolverKind::kMilp;
  const PlannedStep exact = *plan_step(request, cost).step;
  require_correct(exact, request, cost);
  RC_ASSERT(exact.prediction.makespan <= fluid.prediction.makespan);
  const PlannedStep again = *plan_step(request, cost).step;
  RC_ASSERT(again.plan == exact.plan);
  RC_ASSERT(again.schedules == exact.schedules);
}

RC_GTEST_PROP(Solver, ExactAnswersKeepTheMemoryCap, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = few_granules(rng);
  request.solver = SolverKind::kAuto;
  const CostModel cost = small_cost(request.dp);
  request.memory_cap = Bytes(1);
  const PlanOutcome refused = plan_step(request, cost);
  RC_ASSERT(refused.does_not_fit.has_value());
  request.memory_cap = refused.does_not_fit->needed;
  const PlanOutcome tight = plan_step(request, cost);
  RC_ASSERT(tight.step.has_value());
  require_correct(*tight.step, request, cost);
  request.memory_cap = *request.memory_cap * 3 / 2;
  const PlanOutcome roomy = plan_step(request, cost);
  require_correct(*roomy.step, request, cost);
  if (request.dp == 1)
    RC_ASSERT(roomy.step->prediction.makespan <= tight.step->prediction.makespan);
}

/// Eight granules on four stages: the fluid cut keeps its order of sequences, the program may put
/// any granule beside any other.
PlanRequest uneven_step() {
  return {.lengths = {Tokens(128), Tokens(250), Tokens(128), Tokens(90), Tokens(380)}, .pp = 4};
}

TEST(Solver, AnExactAnswerIsShorterWhereGranulesAreFew) {
  PlanRequest request = uneven_step();
  const CostModel cost = small_cost();
  const PlannedStep fluid = *plan_step(request, cost).step;
  request.solver = SolverKind::kAuto;
  const PlannedStep exact = *plan_step(request, cost).step;
  EXPECT_LT(exact.prediction.makespan, fluid.prediction.makespan);
}

TEST(Solver, AutoIsFluidForLargerSteps) {
  PlanRequest request{.lengths = {Tokens(2000), Tokens(1000), Tokens(500)},
                      .pp = 3};  // 28 granules
  const CostModel cost = small_cost();
  const PlannedStep fluid = *plan_step(request, cost).step;
  request.solver = SolverKind::kAuto;
  const PlannedStep automatic = *plan_step(request, cost).step;
  EXPECT_EQ(automatic.plan, fluid.plan);
  EXPECT_EQ(automatic.schedules, fluid.schedules);
}

TEST(TimeBudget, IsNeverWorse) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlanRequest request = testing::random_replicated_request(rng);
    request.solver = seed % 2 == 0 ? SolverKind::kFluid : SolverKind::kAuto;
    const CostModel cost = small_cost(request.dp);
    const PlannedStep usual = *plan_step(request, cost).step;
    for (const double seconds : {1e-6, 0.05}) {
      request.time_budget = from_seconds(seconds);
      const PlannedStep longer = *plan_step(request, cost).step;
      EXPECT_EQ(check_plan(longer.plan), std::vector<std::string>{});
      EXPECT_TRUE(check_step_schedules(longer.plan, longer.schedules).empty());
      EXPECT_LE(longer.prediction.makespan, usual.prediction.makespan);
    }
  }
}

TEST(TimeBudget, FindsShorterStepsAndEndsWhenNothingIsLeft) {
  // The rounds are over after a fraction of a second; the budget is never used up.
  PlanRequest request{.lengths = {Tokens(1000), Tokens(700), Tokens(300), Tokens(200), Tokens(150)},
                      .pp = 4};
  const CostModel cost = small_cost();
  const PlannedStep usual = *plan_step(request, cost).step;
  request.time_budget = from_seconds(3600);
  const PlannedStep longer = *plan_step(request, cost).step;
  EXPECT_LT(longer.prediction.makespan, usual.prediction.makespan);
}

TEST(TimeBudget, BelowZeroIsRefused) {
  PlanRequest request = uneven_step();
  request.time_budget = Nanos(-1);
  EXPECT_THROW((void)plan_step(request, small_cost()), InvalidInput);
}

}  // namespace
}  // namespace slimpack
