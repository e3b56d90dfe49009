// Plans for layers under autograd, and plans with symmetric cuts.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/plan/regroup.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"
#include "tests/support/counted_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::counted_costs;
using testing::highest;
using testing::PlanRequest;
using testing::random_request;
using testing::small_cost;

bool paired(const RatedPlan& step) {
  return std::ranges::all_of(step.plan.replicas,
                             [](const ReplicaPlan& r) { return all_paired(r.packs); });
}

PlanRequest autograd_request(Rng& rng) {
  PlanRequest request = random_request(rng);
  request.recompute = {Recompute::kNothing, Recompute::kElementwise, Recompute::kFull};
  if (rng.below(4) == 0) request.recompute = {Recompute::kElementwise};
  if (rng.below(3) == 0) request.recompute.push_back(Recompute::kOffload);
  return request;
}

RC_GTEST_PROP(SymmetricCuts, GiveBackwardTheMicroPacksOfForward, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = random_request(rng);
  request.cuts = CutsKind::kSymmetric;
  request.solver = rng.below(2) == 0 ? SolverKind::kFluid : SolverKind::kAuto;
  const RatedPlan step = *plan_step(request, small_cost()).step;
  RC_ASSERT(check_plan(step.plan).empty());
  RC_ASSERT(paired(step));
  RC_ASSERT(step.prediction.makespan >= step.lower_bound);
}

RC_GTEST_PROP(AutogradPlan, IsValidWithinItsCapAndAboveItsBound, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = autograd_request(rng);
  Costs cost = counted_costs({0, 1, 0, 1});
  cost.host.per_byte = 0.25;
  const RatedPlan free = *plan_step(request, cost).step;
  RC_ASSERT(free.prediction.makespan >= free.lower_bound);
  request.memory_cap = highest(free.prediction.peak_activation) * 7 / 10;
  const PlanOutcome outcome = plan_step(request, cost);
  if (!outcome.step) return;
  RC_ASSERT(check_plan(outcome.step->plan).empty());
  RC_ASSERT(highest(outcome.step->prediction.peak_activation) <= *request.memory_cap);
  RC_ASSERT(outcome.step->prediction.makespan >= free.prediction.makespan);
  RC_ASSERT(outcome.step->prediction.makespan >= outcome.step->lower_bound);
}

TEST(AutogradPlan, OffloadsWhereNothingElseFits) {
  // A document of 4,000 tokens. Uncut, it has a graph of 4,000 · 216 bytes. Cut into slices of 50,
  // the last stage holds inputs of 64,000 bytes and keys and values of some 63,000 after forward.
  // In host memory they leave a graph of some 50 tokens, and 64,000 bytes for the prefix in it.
  Costs cost = counted_costs({0, 0, 0, 0});
  cost.host.per_byte = 0.25;
  PlanRequest request{.lengths = {Tokens(4000), Tokens(50)}, .pp = 2, .granularity = Tokens(50)};
  request.recompute = {Recompute::kFull};
  request.memory_cap = Bytes(100'000);
  EXPECT_FALSE(plan_step(request, cost).step);
  request.recompute.push_back(Recompute::kOffload);
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step);
  EXPECT_EQ(outcome.step->plan.recompute, RecomputeByLayer(4, Recompute::kOffload));
  EXPECT_GT(host_need(*outcome.step, cost), Bytes(0));
  // Half of that host memory is too little.
  cost.host.memory = host_need(*outcome.step, cost) / 2;
  EXPECT_THROW((void)plan_step(request, cost), JobDoesNotFit);
}

TEST(AutogradPlan, KeepsGraphsWhereMemoryAllowsAndElseRunsForwardAgain) {
  const Costs cost = counted_costs({0, 0, 0, 0});
  PlanRequest request{.lengths = SequenceLengths(12, Tokens(512)), .pp = 2};
  request.recompute = {Recompute::kNothing, Recompute::kElementwise, Recompute::kFull};
  const RatedPlan roomy = *plan_step(request, cost).step;
  EXPECT_EQ(roomy.plan.recompute, RecomputeByLayer(4, Recompute::kNothing));
  EXPECT_TRUE(paired(roomy));
  // The graph of a whole sequence in two layers has 512 · (2 · 100 + 16) = 110,592 bytes, in
  // whichever MicroPacks it lies; without elementwise results 512 · (2 · 60 + 16) = 69,632. Stages
  // that run at once need two of them.
  request.memory_cap = Bytes(180'000);
  const RatedPlan tighter = *plan_step(request, cost).step;
  EXPECT_EQ(tighter.plan.recompute, RecomputeByLayer(4, Recompute::kElementwise));
  EXPECT_TRUE(paired(tighter));
  EXPECT_GT(tighter.prediction.makespan, roomy.prediction.makespan);
  request.memory_cap = Bytes(110'000);
  const RatedPlan tight = *plan_step(request, cost).step;
  EXPECT_EQ(tight.plan.recompute, RecomputeByLayer(4, Recompute::kFull));
  EXPECT_GT(tight.prediction.makespan, tighter.prediction.makespan);
}

TEST(AutogradPlan, IsReadFromItsFileWithTheSamePrediction) {
  const Costs cost = counted_costs({0, 1, 0, 1});
  PlanRequest request{.lengths = {Tokens(900), Tokens(300), Tokens(50)}, .pp = 2};
  request.recompute = {Recompute::kFull};
  const RatedPlan step = *plan_step(request, cost).step;
  const PlanFile file = plan_file_from_json(plan_file_to_json(step, cost), "plan.json");
  EXPECT_EQ(file.cost, cost);
  EXPECT_EQ(file.step.prediction.makespan, step.prediction.makespan);
  EXPECT_EQ(file.step.prediction.peak_activation, step.prediction.peak_activation);
}

TEST(AutogradPlan, RefusesRecomputationsOfOtherLayers) {
  PlanRequest request{.lengths = {Tokens(100)}};
  request.recompute = {Recompute::kMlp};
  expect_invalid_input(
      [&] {
        (void)plan_step(request, counted_costs({0, 0}));
      },
      {"\"mlp\"", "autograd", "\"full\""});
}

}  // namespace
}  // namespace slimpack
