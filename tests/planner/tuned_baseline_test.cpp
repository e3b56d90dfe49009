#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/best_order.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/random_baseline_job.h"
#include "tests/support/sample.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

TunedStep tuned(const Baseline& baseline, const PlanRequest& request, const Costs& cost) {
  return tuned_baseline(baseline, {request.job(cost), request.lengths, request.choices(), cost});
}

// The search leaves most tunings out by bounds; here all are made and simulated.
TEST(TunedBaseline, IsTheBestOfAllTunings) {
  Costs cost = testing::small_cost(8);
  testing::Sample sample;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    if (!sample.next()) continue;
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlanRequest request = testing::random_baseline_job(rng);
    request.recompute = {Recompute::kFull};
    request.mixed_recompute = false;
    Costs known = cost;
    if (request.backward == BackwardKind::kWhole) known.kinds.front().weight_gradient = {};
    const Job job = request.job(known);
    const StageTable table = stage_table(known, job, Recompute::kFull);
    for (const Baseline& baseline : baselines()) {
      SCOPED_TRACE(baseline.name);
      std::optional<Nanos> best;
      for (const Tuning& tuning : baseline.tunings({table, job.context, request.lengths})) {
        const BaselinePlan made =
            baseline_plan(baseline, {table, job.context, request.lengths, tuning});
        EXPECT_EQ(check_plan(made.plan), std::vector<std::string>{}) << describe(tuning);
        RatedPlan step = ordered_step(made, job.memory_cap, table, 32);
        for (const bool exchange : {false, true}) {
          if (exchange && !baseline.traits.exchanges) continue;
          if (exchange) put_exchanges_in(step, known);
          EXPECT_EQ(check_step(step.plan, step.schedules), std::vector<std::string>{});
          const Nanos makespan = predict(step, known).makespan;
          best = best ? std::min(*best, makespan) : makespan;
        }
      }
      EXPECT_EQ(tuned(baseline, request, cost).step.prediction.makespan, *best);
    }
  }
}

TEST(TunedBaseline, IsNoLongerThanThePublishedSettingAndOursIsNoLongerThanIt) {
  const Costs cost = testing::small_cost(8);
  int shorter = 0, cases = 0;
  testing::Sample sample;
  for (std::uint64_t seed = 100; seed < 160; ++seed) {
    if (!sample.next()) continue;
    ++cases;
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlanRequest request = testing::random_baseline_job(rng);
    request.exchange_context = true;
    request.most_merged = 1;
    while (2 * request.most_merged <= request.dp) request.most_merged *= 2;
    const RatedPlan any = baseline_step(baselines()[rng.below(9)], request, cost);
    if (rng.below(3) > 0)
      request.memory_cap =
          step_need(any, cost).bytes * (40 + static_cast<std::int64_t>(rng.below(100))) / 100;
    const PlanOutcome ours = plan_step(request, cost);
    for (const Baseline& baseline : baselines()) {
      SCOPED_TRACE(baseline.name);
      const TunedStep best = tuned(baseline, request, cost);
      if (request.memory_cap && step_need(best.step, cost).bytes > *request.memory_cap) continue;
      ASSERT_TRUE(ours.step.has_value());
      EXPECT_LE(ours.step->prediction.makespan, best.step.prediction.makespan);
      EXPECT_LE(best.step.lower_bound, best.step.prediction.makespan);
      const RatedPlan published = baseline_step(baseline, request, cost);
      if (request.memory_cap && step_need(published, cost).bytes > *request.memory_cap) continue;
      EXPECT_LE(best.step.prediction.makespan, published.prediction.makespan);
      if (best.step.prediction.makespan < published.prediction.makespan) ++shorter;
    }
  }
  EXPECT_GT(shorter, 5 * cases / 3);
}

TEST(TunedBaseline, TakesMoreSlicesWhereASequenceIsLong) {
  // One sequence on four stages: with n slices of equal time a step takes (n + 3) ÷ n of its work,
  // so the published four are far from the best.
  const Costs cost = testing::small_cost();
  PlanRequest request{.lengths = {Tokens(16'384)}, .pp = 3, .context = Tokens(16'384)};
  const TunedStep best = tuned(baseline_named("seq1f1b"), request, cost);
  EXPECT_GE(best.tuning.slices, 8);
  EXPECT_NE(describe(best.tuning).find("slices a pack"), std::string::npos);
}

TEST(TunedBaseline, ComputesMoreAgainOnlyOnSomeLayersWhereItsSystemCan) {
  const Costs cost = testing::small_cost();
  PlanRequest request;
  for (int i = 0; i < 12; ++i) request.lengths.push_back(Tokens(i % 2 == 0 ? 2000 : 100 + 10 * i));
  request.pp = 3;
  request.context = Tokens(2048);
  request.recompute = {Recompute::kElementwise, Recompute::kFull};
  request.mixed_recompute = true;
  const Baseline& best_fit = baseline_named("best-fit");
  const Bytes roomy = step_need(tuned(best_fit, request, cost).step, cost).bytes;
  request.memory_cap = roomy - Bytes(1);
  const TunedStep tight = tuned(best_fit, request, cost);
  EXPECT_LE(step_need(tight.step, cost).bytes, *request.memory_cap);
  const RecomputeByLayer& recompute = tight.step.plan.recompute;
  EXPECT_EQ(std::ranges::count(recompute, Recompute::kFull) > 0 &&
                std::ranges::count(recompute, Recompute::kElementwise) > 0,
            true);
}

TEST(Describe, NamesWhatIsNotAsPublished) {
  EXPECT_EQ(describe(Tuning{}), "as published");
  EXPECT_EQ(describe(Tuning{.pack = Tokens(65'536),
                            .slices = 8,
                            .dealing = Dealing::kByTime,
                            .order = PackOrder::kHeaviestFirst,
                            .split = true}),
            "packs of 64K, 8 slices a pack, dealt by time, heaviest first, split backwards");
  EXPECT_EQ(describe(Tuning{.pack = Tokens(1000), .share = Tokens(4096), .group = 2, .packs = 3}),
            "packs of 1000, 4K tokens a replica, 2 replicas a pack, 3 packs a replica");
  EXPECT_EQ(describe(Tuning{.slices = 8, .tails = true}), "8 slices a pack, tails packed");
}

}  // namespace
}  // namespace slimpack
