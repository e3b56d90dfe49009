// What every plan of a whole step keeps to, on random workloads. A new way to plan is added in
// step_makers.cpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/planner/replica_tasks.h"
#include "tests/conformance/step_checks.h"
#include "tests/conformance/step_makers.h"

namespace slimpack::conformance {
namespace {

class EveryStepMaker : public ::testing::TestWithParam<StepMaker> {};

TEST_P(EveryStepMaker, MakesConformingStepsThatRepeat) {
  EXPECT_TRUE(rc::check([] {
    const Workload workload = *workloads(GetParam().extent);
    const MadeStep made = GetParam().make(workload);
    require_conforming(made, workload);
    if (GetParam().repeats) require_same(GetParam().make(workload).step, made.step);
  }));
}

TEST_P(EveryStepMaker, MakesAStepOfOneToken) {
  EXPECT_TRUE(rc::check([] {
    Workload workload = *workloads(GetParam().extent);
    workload.lengths = {Tokens(1)};
    require_conforming(GetParam().make(workload), workload);
  }));
}

INSTANTIATE_TEST_SUITE_P(Steps, EveryStepMaker, ::testing::ValuesIn(step_makers()), NameOf());

class EveryPlanner : public ::testing::TestWithParam<Planner> {
 protected:
  static PlannedStep free_step(const Workload& workload) {
    return *plan_step(request_of(GetParam(), workload), workload.cost).step;
  }
  static PlanOutcome capped(const Workload& workload, Bytes cap) {
    PlanRequest request = request_of(GetParam(), workload);
    request.memory_cap = cap;
    return plan_step(request, workload.cost);
  }
  static void require_conforming_within(Bytes cap, const Workload& workload) {
    PlanRequest request = request_of(GetParam(), workload);
    request.memory_cap = cap;
    const PlanOutcome outcome = plan_step(request, workload.cost);
    RC_ASSERT(outcome.step.has_value() && !outcome.does_not_fit.has_value());
    require_conforming({request, *outcome.step}, workload);
  }
};

TEST_P(EveryPlanner, NamesTheLeastCapThatWorksAndKeepsIt) {
  EXPECT_TRUE(rc::check([] {
    const Workload workload = *workloads(GetParam().extent);
    const PlanOutcome refused = capped(workload, Bytes(1));
    RC_ASSERT(refused.does_not_fit.has_value() && !refused.step.has_value());
    const Bytes least = refused.does_not_fit->needed;
    RC_ASSERT(refused.does_not_fit->message().find('\n') == std::string::npos);
    require_conforming_within(least, workload);
    const PlanOutcome below = capped(workload, least - Bytes(1));
    RC_ASSERT(below.does_not_fit.has_value() && !below.step.has_value());
    RC_ASSERT(below.does_not_fit->needed == least);
  }));
}

TEST_P(EveryPlanner, KeepsEveryLargerCap) {
  EXPECT_TRUE(rc::check([] {
    const Workload workload = *workloads(GetParam().extent);
    const Bytes least = capped(workload, Bytes(1)).does_not_fit->needed;
    const PlannedStep free = free_step(workload);
    const Bytes wanted = step_need(free, with_recompute(workload.cost, free.recompute)).bytes;
    const auto percent = *rc::gen::inRange<std::int64_t>(0, 101);
    const Bytes more = std::max(Bytes(0), wanted - least);
    require_conforming_within(least + more * percent / 100, workload);
  }));
}

INSTANTIATE_TEST_SUITE_P(Planners, EveryPlanner, ::testing::ValuesIn(planners()), NameOf());

}  // namespace
}  // namespace slimpack::conformance
