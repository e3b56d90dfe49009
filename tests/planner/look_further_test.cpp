// Solvers and time budgets: sometimes a shorter step than the usual search (never a longer one,
// says the conformance suite).
#include <gtest/gtest.h>

#include "slimpack/base/error.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

/// Eight granules on four stages: the fluid cut keeps its order of sequences, the program may put
/// any granule beside any other.
PlanRequest uneven_step() {
  return {.lengths = {Tokens(128), Tokens(250), Tokens(128), Tokens(90), Tokens(380)}, .pp = 4};
}

TEST(Solver, AnExactAnswerIsShorterWhereGranulesAreFew) {
  PlanRequest request = uneven_step();
  const Costs cost = small_cost();
  const RatedPlan fluid = *plan_step(request, cost).step;
  request.solver = SolverKind::kAuto;
  const RatedPlan exact = *plan_step(request, cost).step;
  EXPECT_LT(exact.prediction.makespan, fluid.prediction.makespan);
}

TEST(Solver, AutoIsFluidForLargerSteps) {
  PlanRequest request{.lengths = {Tokens(2000), Tokens(1000), Tokens(500)},
                      .pp = 3};  // 28 granules
  const Costs cost = small_cost();
  const RatedPlan fluid = *plan_step(request, cost).step;
  request.solver = SolverKind::kAuto;
  const RatedPlan automatic = *plan_step(request, cost).step;
  EXPECT_EQ(automatic.plan, fluid.plan);
  EXPECT_EQ(automatic.schedules, fluid.schedules);
}

TEST(TimeBudget, FindsShorterStepsAndEndsWhenNothingIsLeft) {
  // The rounds are over after a fraction of a second; the budget is never used up.
  PlanRequest request{.lengths = {Tokens(1000), Tokens(700), Tokens(300), Tokens(200), Tokens(150)},
                      .pp = 4};
  const Costs cost = small_cost();
  const RatedPlan usual = *plan_step(request, cost).step;
  request.time_budget = from_seconds(3600);
  const RatedPlan longer = *plan_step(request, cost).step;
  EXPECT_LT(longer.prediction.makespan, usual.prediction.makespan);
}

TEST(TimeBudget, BelowZeroIsRefused) {
  PlanRequest request = uneven_step();
  request.time_budget = Nanos(-1);
  EXPECT_THROW((void)plan_step(request, small_cost()), InvalidInput);
}

}  // namespace
}  // namespace slimpack
