#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/base/error.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::highest;
using testing::PlanRequest;
using testing::random_request;
using testing::small_cost;

RC_GTEST_PROP(PlanStep, MoreMemoryIsNeverWorse, (std::uint64_t seed)) {
  Rng rng(seed);
  PlanRequest request = random_request(rng);
  const Costs cost = small_cost();
  const PlanOutcome unlimited = plan_step(request, cost);
  Nanos before = unlimited.step->prediction.makespan;
  auto cap = highest(unlimited.step->prediction.peak_activation).count();
  for (int tries = 0; tries < 6; ++tries) {
    request.memory_cap = Bytes(cap);
    const PlanOutcome outcome = plan_step(request, cost);
    RC_ASSERT(outcome.step.has_value() != outcome.does_not_fit.has_value());
    if (!outcome.step) return;
    RC_ASSERT(outcome.step->prediction.makespan >= before);
    before = outcome.step->prediction.makespan;
    cap -= cap * static_cast<std::int64_t>(rng.below(20)) / 100;
  }
}

// Under the larger cap coarse MicroPacks just fit, one by one; fine ones fill the pipeline.
TEST(PlanStep, MoreMemoryIsNoReasonForCoarseMicroPacks) {
  PlanRequest request{.lengths = SequenceLengths(96, Tokens(512)),
                      .pp = 6,
                      .dp = 2,
                      .granularity = Tokens(16),
                      .context = Tokens(512),
                      .memory_cap = Bytes(1)};
  const Costs cost = small_cost(2);
  const Bytes needed = plan_step(request, cost).does_not_fit->needed;
  request.memory_cap = needed + needed / 20;
  const RatedPlan tight = *plan_step(request, cost).step;
  request.memory_cap = needed + needed / 5;
  const RatedPlan wide = *plan_step(request, cost).step;
  EXPECT_LE(wide.prediction.makespan, tight.prediction.makespan);
}

TEST(PlanStep, BeatsFixedPackingOnALongTail) {
  // One long sequence among many short ones on three stages: packed, its pack alone takes longer
  // than everything else together, so the other stages wait for it.
  PlanRequest request;
  request.lengths.assign(60, Tokens(200));
  request.lengths.emplace_back(8192);
  request.pp = 3;
  request.context = Tokens(8192);
  const Costs cost = small_cost();
  const RatedPlan sliced = *plan_step(request, cost).step;
  request.planner = PlannerKind::kPacked;
  const RatedPlan packed = *plan_step(request, cost).step;
  EXPECT_LT(sliced.prediction.makespan * 3, packed.prediction.makespan * 2);
  EXPECT_LT(sliced.gap(), 0.1);
}

TEST(PlanStep, TakesSlimpipeInItsBestSetting) {
  // Slices of one long sequence that run at the same time have prefixes of different length.
  PlanRequest request{.lengths = {Tokens(8192)}, .pp = 3, .context = Tokens(8192)};
  request.planner = PlannerKind::kSlimpipe;
  const Costs cost = small_cost();
  const RatedPlan alone = *plan_step(request, cost).step;
  request.exchange_context = true;
  const RatedPlan exchanging = *plan_step(request, cost).step;
  EXPECT_TRUE(has_exchanges(exchanging));
  EXPECT_FALSE(has_exchanges(alone));
  EXPECT_LT(exchanging.prediction.makespan, alone.prediction.makespan);
  EXPECT_EQ(exchanging.prediction.makespan,
            tuned_baseline(baseline_named("slimpipe"),
                           {request.job(cost), request.lengths, request.choices(), cost})
                .step.prediction.makespan);
  EXPECT_EQ(exchanging.baseline, "slimpipe");
  EXPECT_LE(exchanging.lower_bound, exchanging.prediction.makespan);
  request.memory_cap = Bytes(1000);
  EXPECT_TRUE(plan_step(request, cost).does_not_fit.has_value());
  request.context = Tokens(8191);
  EXPECT_THROW((void)plan_step(request, cost), InvalidInput);
}

TEST(PlanStep, RefusesSeveralStagesARankWhereTheBaselineRunsOne) {
  PlanRequest request{.lengths = {Tokens(900), Tokens(300)}, .pp = 2, .context = Tokens(1000)};
  request.stages_per_rank = 2;
  request.planner = PlannerKind::kContextParallel;
  expect_invalid_input([&] { (void)plan_step(request, small_cost(2)); },
                       {"\"context-parallel\"", "parallel.stages_per_rank is 2", "set it to 1"});
}

TEST(PlanStep, RefusesToExchangeAttentionOfLayersWithAWindow) {
  Costs cost = small_cost();
  cost.kinds.front().forward.window = Tokens(64);
  const PlanRequest request{
      .lengths = {Tokens(100)}, .pp = 2, .context = Tokens(100), .exchange_context = true};
  expect_invalid_input([&] { (void)plan_step(request, cost); },
                       {"parallel.exchange_context is true", "with a window", "set it to false"});
}

TEST(PlanStep, RefusesRequestsThatMakeNoSense) {
  const Costs cost = small_cost();
  const PlanRequest good{.lengths = {Tokens(100), Tokens(50)}, .context = Tokens(100)};
  const auto refused = [&](auto change) {
    PlanRequest request = good;
    change(request);
    try {
      (void)plan_step(request, cost);
    } catch (const InvalidInput& e) {
      return std::string(e.what()).find('\n') == std::string::npos;
    }
    return false;
  };
  EXPECT_FALSE(refused([](PlanRequest&) {}));
  EXPECT_TRUE(refused([](PlanRequest& r) { r.lengths.clear(); }));
  EXPECT_TRUE(refused([](PlanRequest& r) { r.lengths[1] = Tokens(0); }));
  EXPECT_TRUE(refused([](PlanRequest& r) { r.pp = 0; }));
  EXPECT_TRUE(refused([](PlanRequest& r) { r.pp = 7; }));  // six layers
  EXPECT_TRUE(refused([](PlanRequest& r) { r.granularity = Tokens(0); }));
  EXPECT_TRUE(refused([](PlanRequest& r) { r.memory_cap = Bytes(0); }));
  EXPECT_TRUE(refused([](PlanRequest& r) {
    r.planner = PlannerKind::kPacked;
    r.context = Tokens(99);
  }));
  EXPECT_TRUE(refused([](PlanRequest& r) {
    r.planner = PlannerKind::kPacked;
    r.context = Tokens(0);
  }));
}

}  // namespace
}  // namespace slimpack
