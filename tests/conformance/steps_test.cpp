// Rules for every plan of a whole step, on random workloads. A new way to plan is added in
// step_makers.cpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "slimpack/cost/abilities.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/conformance/step_checks.h"
#include "tests/conformance/step_makers.h"
#include "tests/support/expect_holds.h"

namespace slimpack::conformance {
namespace {

using testing::expect_holds;

/// Whatever is asked for beyond the usual search only adds to it.
void require_no_longer_than_usual(const MadeStep& made, const Costs& cost) {
  PlanRequest usual = made.request;
  usual.solver = SolverKind::kFluid;
  usual.effort = 1;
  usual.time_budget = Nanos(0);
  usual.mixed_recompute = false;
  if (made.request.solver == usual.solver && made.request.effort == usual.effort &&
      made.request.time_budget == usual.time_budget &&
      made.request.mixed_recompute == usual.mixed_recompute)
    return;
  const PlanOutcome outcome = plan_step(usual, cost);
  if (outcome.step) RC_ASSERT(made.step.prediction.makespan <= outcome.step->prediction.makespan);
}

class EveryStepMaker : public ::testing::TestWithParam<StepMaker> {};

TEST_P(EveryStepMaker, MakesConformingStepsThatRepeat) {
  expect_holds(
      [] {
        const Workload workload = *workloads(GetParam().extent);
        const MadeStep made = GetParam().make(workload);
        require_conforming(made, workload);
        require_no_longer_than_usual(made, workload.cost);
        if (GetParam().repeats) require_same(GetParam().make(workload).step, made.step);
      },
      GetParam().share);
}

TEST_P(EveryStepMaker, MakesAStepOfOneToken) {
  expect_holds(
      [] {
        Workload workload = *workloads(GetParam().extent);
        workload.lengths = {Tokens(1)};
        require_conforming(GetParam().make(workload), workload);
      },
      GetParam().share);
}

INSTANTIATE_TEST_SUITE_P(Steps, EveryStepMaker, ::testing::ValuesIn(step_makers()), NameOf());

/// The share of other properties' cases: each case here plans several times.
constexpr double kCapped = 0.4;

class EveryPlanner : public ::testing::TestWithParam<Planner> {
 protected:
  static RatedPlan free_step(const Workload& workload) {
    return *plan_step(request_of(GetParam(), workload), workload.cost).step;
  }
  static PlanOutcome capped(const Workload& workload, Bytes cap) {
    PlanRequest request = request_of(GetParam(), workload);
    request.memory_cap = cap;
    return plan_step(request, workload.cost);
  }
  static RatedPlan conforming_within(Bytes cap, const Workload& workload) {
    PlanRequest request = request_of(GetParam(), workload);
    request.memory_cap = cap;
    const PlanOutcome outcome = plan_step(request, workload.cost);
    RC_ASSERT(outcome.step.has_value() && !outcome.does_not_fit.has_value());
    const MadeStep made = made_by_planner(request, *outcome.step);
    require_conforming(made, workload);
    require_no_longer_than_usual(made, workload.cost);
    return made.step;
  }
};

TEST_P(EveryPlanner, NamesALeastCapAndKeepsIt) {
  expect_holds(
      [] {
        const Workload workload = *workloads(GetParam().extent);
        const PlanOutcome refused = capped(workload, Bytes(1));
        RC_ASSERT(refused.does_not_fit.has_value() && !refused.step.has_value());
        const Bytes least = refused.does_not_fit->needed;
        RC_ASSERT(refused.does_not_fit->cap == Bytes(1));
        RC_ASSERT(refused.does_not_fit->longest_that_fits == Tokens(0));
        RC_ASSERT(refused.does_not_fit->message().find('\n') == std::string::npos);
        (void)conforming_within(least, workload);
        // Knowing what fits some replicas may lead to less for the others; a refusal never to more.
        const PlanOutcome below = capped(workload, least - Bytes(1));
        RC_ASSERT(below.does_not_fit.has_value() != below.step.has_value());
        if (below.does_not_fit) RC_ASSERT(below.does_not_fit->needed == least);
        if (workload.dp == 1) RC_ASSERT(below.does_not_fit.has_value());
      },
      kCapped * GetParam().share);
}

TEST_P(EveryPlanner, KeepsEveryLargerCapAndPutsItToUse) {
  expect_holds(
      [] {
        const Workload workload = *workloads(GetParam().extent);
        const Bytes least = capped(workload, Bytes(1)).does_not_fit->needed;
        const RatedPlan free = free_step(workload);
        const Bytes wanted = step_need(free, workload.cost).bytes;
        const auto percent = *rc::gen::inRange<std::int64_t>(0, 101);
        const Bytes more = std::max(Bytes(0), wanted - least);
        const RatedPlan step = conforming_within(least + more * percent / 100, workload);
        // With several replicas, cuts that fit one lead to other cuts of the others.
        if (workload.dp == 1)
          RC_ASSERT(step.prediction.makespan <= capped(workload, least).step->prediction.makespan);
      },
      kCapped * GetParam().share);
}

INSTANTIATE_TEST_SUITE_P(Planners, EveryPlanner, ::testing::ValuesIn(planners()), NameOf());

/// A step of these sequences that is refused, and one with the cap that the refusal names.
void expect_named_cap_to_fit(PlanRequest request) {
  const Costs cost = cost_of(CostKind::kCompute);
  request.granularity = Tokens(3);
  request.memory_cap = Bytes(1);
  const PlanOutcome refused = plan_step(request, cost);
  ASSERT_TRUE(refused.does_not_fit.has_value());
  request.memory_cap = refused.does_not_fit->needed;
  EXPECT_TRUE(plan_step(request, cost).step.has_value());
}

TEST(Refusal, NamesACapThatFitsWhereOnlyTheHeaviestReplicaFitsAlone) {
  // Nobody fits a cap of one byte, so merging is tried and needs less. Under the cap that it needs,
  // the heaviest replica fits unmerged, but the other does not.
  PlanRequest request;
  request.lengths.assign(6, Tokens(1));
  request.lengths[4] = Tokens(5);
  request.pp = 4;
  request.dp = request.most_merged = 2;
  request.speed = {{1, 1, 1, 1}, {1, 1, 1, 0.89}};
  expect_named_cap_to_fit(request);
}

TEST(Refusal, NamesACapThatFitsWhereTheHeaviestReplicaHintsAtOtherCuts) {
  // With a cap under which it fits, the heaviest replica has other cuts than without: those do not
  // fit the others.
  PlanRequest request;
  request.lengths.assign(6, Tokens(1));
  request.lengths[5] = Tokens(2);
  request.pp = 2;
  request.dp = request.most_merged = 4;
  request.speed = {{1, 0.89}, {0.89, 1}, {1, 1}, {0.707, 1}};
  request.recompute = abilities(cost_of(CostKind::kCompute)).recomputations;
  expect_named_cap_to_fit(request);
}

TEST(Refusal, NamesACapThatFitsWhereOnlyExactPacksLetTheHeaviestReplicaFit) {
  // By then the merged pair beside it, which fits, has not been looked at to the end.
  PlanRequest request;
  for (const int length : {5, 12, 12, 2, 2}) request.lengths.emplace_back(length);
  request.pp = 8;
  request.dp = 3;
  request.most_merged = 2;
  request.solver = SolverKind::kAuto;
  expect_named_cap_to_fit(request);
}

TEST(Refusal, CountsWhatExactAnswersNeed) {
  // The program's cuts of 21 tokens need less than the fluid ones; the refusal says so.
  const Costs cost = cost_of(CostKind::kCompute);
  PlanRequest request{.lengths = {Tokens(21)}, .pp = 4, .granularity = Tokens(16)};
  request.memory_cap = Bytes(1);
  const Bytes fluid = plan_step(request, cost).does_not_fit->needed;
  request.solver = SolverKind::kAuto;
  const Bytes exact = plan_step(request, cost).does_not_fit->needed;
  EXPECT_LT(exact, fluid);
  request.memory_cap = exact;
  EXPECT_TRUE(plan_step(request, cost).step.has_value());
  request.memory_cap = exact - Bytes(1);
  EXPECT_FALSE(plan_step(request, cost).step.has_value());
}

TEST(Effort, ComparesWholeStepsReductionIncluded) {
  // Slow links: the second round's step ends its actions sooner, and its reduction later.
  const Costs cost = cost_of(CostKind::kLinks);
  PlanRequest request{.lengths = {}, .pp = 7, .dp = 4, .granularity = Tokens(3)};
  for (const int length : {1, 20, 1, 20, 20, 1, 1, 1, 1, 1, 1})
    request.lengths.emplace_back(length);
  request.speed.assign(4, std::vector<double>(7, 1));
  for (std::size_t r = 0; r < 4; ++r)
    request.speed[r][5] =
        std::array{0.6299605249474366, 0.8908987181403393, 0.5, 1.681792830507429}[r];
  request.speed[3][6] = 0.7937005259840998;
  const Nanos usual = plan_step(request, cost).step->prediction.makespan;
  request.effort = 2;
  EXPECT_LE(plan_step(request, cost).step->prediction.makespan, usual);
}

}  // namespace
}  // namespace slimpack::conformance
