// Split backwards in whole plans.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

bool any_split(const RatedPlan& step) {
  for (const Schedule& schedule : step.schedules)
    for (const auto& actions : schedule.ranks)
      for (const Action& action : actions)
        if (action.pass == Pass::kInputGradient) return true;
  return false;
}

TEST(SplitBackward, ShortensAStepOfFewMicroPacks) {
  // Two sequences too short to cut: stages wait for most of the step.
  PlanRequest request{.lengths = {Tokens(128), Tokens(128)}, .pp = 3};
  const RatedPlan whole = *plan_step(request, small_cost()).step;
  EXPECT_FALSE(any_split(whole));
  request.backward = BackwardKind::kSplit;
  const RatedPlan split = *plan_step(request, small_cost()).step;
  EXPECT_TRUE(any_split(split));
  EXPECT_LT(split.prediction.makespan, whole.prediction.makespan);
}

RC_GTEST_PROP(SplitBackward, NeverLengthensAStep, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = testing::random_replicas(rng);
  const Costs cost = small_cost(request.dp);
  const RatedPlan free = *plan_step(request, cost).step;
  if (rng.below(2) == 0)
    request.memory_cap = step_need(free, cost).bytes * (2 + static_cast<int>(rng.below(3))) / 4;
  const PlanOutcome whole = plan_step(request, cost);
  request.backward = BackwardKind::kSplit;
  const PlanOutcome split = plan_step(request, cost);
  // Another order may need a little less memory: a split step may fit where no whole one does.
  if (!whole.step) return;
  RC_ASSERT(split.step.has_value());
  RC_ASSERT(split.step->prediction.makespan <= whole.step->prediction.makespan);
}

TEST(SplitBackward, IsRefusedWhereItsTimesAreNotKnown) {
  Costs cost = small_cost();
  cost.kinds.front().weight_gradient = {};
  const PlanRequest request{.lengths = {Tokens(128)}, .backward = BackwardKind::kSplit};
  expect_invalid_input([&] { (void)plan_step(request, cost); },
                       {"set plan.backward to \"whole\"", "'slimpack profile'", "[hardware]"});
}

}  // namespace
}  // namespace slimpack
