// Plans of jobs whose stages go there and back.
#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/plan/stage_placement.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

/// Two ranks, and eight documents that fill a pack each.
PlanRequest eight_packs(PlacementStyle style, BackwardKind backward) {
  PlanRequest request{.lengths = SequenceLengths(8, Tokens(500)), .pp = 2, .context = Tokens(512)};
  request.backward = backward;
  request.layout =
      balanced_layout(small_cost(), request.lengths, 2, 2, false, LastStage::kBothPasses, style);
  return request;
}

bool any(const RatedPlan& step, Pass pass) {
  return std::ranges::any_of(step.schedules.front().ranks, [&](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [&](const Action& action) { return action.pass == pass; });
  });
}

TEST(TurningStages, RunZeroBubbleV) {
  for (const BackwardKind backward : {BackwardKind::kWhole, BackwardKind::kSplit})
    for (const PlannerKind planner : {PlannerKind::kSlimpack, PlannerKind::kPacked}) {
      PlanRequest request = eight_packs(PlacementStyle::kV, backward);
      request.planner = planner;
      const RunnablePlan step = *plan_step(request, small_cost()).step;
      EXPECT_EQ(step.plan.layout.placement.rank_of_stage(),
                (std::vector<std::int32_t>{0, 1, 1, 0}));
      EXPECT_EQ(check_step(step.plan, step.schedules), std::vector<std::string>{});
      EXPECT_EQ(check_lowered(step.plan, step.lowered), std::vector<std::string>{});
      EXPECT_EQ(any(step, Pass::kWeightGradient), backward == BackwardKind::kSplit);
      EXPECT_LE(step.lower_bound, step.prediction.makespan);
    }
}

TEST(TurningStages, AreQuickerThanStagesAroundTheRanksForTheSamePacks) {
  // The packs are the same: what differs is the bubble. Interleaved 1F1B runs whole backwards.
  PlanRequest vee = eight_packs(PlacementStyle::kV, BackwardKind::kSplit);
  PlanRequest loop = eight_packs(PlacementStyle::kLoop, BackwardKind::kSplit);
  vee.planner = loop.planner = PlannerKind::kPacked;
  EXPECT_LT(plan_step(vee, small_cost()).step->prediction.makespan,
            plan_step(loop, small_cost()).step->prediction.makespan);
}

TEST(TurningStages, AreRefusedByPlannersThatDoNotKnowThem) {
  PlanRequest request = eight_packs(PlacementStyle::kV, BackwardKind::kWhole);
  for (const PlannerKind planner : {PlannerKind::kSlimpipe, PlannerKind::kZeppelin,
                                    PlannerKind::kContextParallel, PlannerKind::kTokenBalanced}) {
    request.planner = planner;
    expect_invalid_input([&] { (void)plan_step(request, small_cost()); },
                         {"parallel.placement is \"v\"", "\"packed\""});
  }
}

}  // namespace
}  // namespace slimpack
