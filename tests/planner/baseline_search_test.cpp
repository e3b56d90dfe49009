#include "slimpack/planner/baseline_search.h"
#include "slimpack/planner/best_order.h"

#include <gtest/gtest.h>

#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/random_baseline_job.h"
#include "tests/support/bound_costs.h"
#include "tests/support/sample.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

Bytes need_of(const RatedPlan& step, const Costs& cost) {
  return step_need(step, cost).bytes;
}

/// The cap, at times none, that lets some plans fit and others not.
std::optional<Bytes> random_cap(Rng& rng, const PlanRequest& request, const Costs& cost) {
  if (rng.below(3) == 0) return std::nullopt;
  const Baseline& any = baselines()[rng.below(baselines().size())];
  const auto percent = 40 + static_cast<std::int64_t>(rng.below(100));
  return need_of(baseline_step(any, request, cost), cost) * percent / 100;
}

/// Whether the plan keeps what the request limits for every plan of ours.
bool allowed(const RatedPlan& step, const PlanRequest& request, const Costs& cost) {
  return most_merged(step.plan) <= request.most_merged &&
         (request.exchange_context || !has_exchanges(step)) &&
         (!request.memory_cap || need_of(step, cost) <= *request.memory_cap);
}

void expect_runnable(const RatedPlan& step, const PlanRequest& request, const Costs& cost) {
  EXPECT_EQ(check_plan(step.plan), std::vector<std::string>{});
  EXPECT_EQ(check_step(step.plan, step.schedules), std::vector<std::string>{});
  EXPECT_TRUE(allowed(step, request, cost));
  EXPECT_EQ(predict(step, cost).makespan, step.prediction.makespan);
  EXPECT_LE(step.lower_bound, step.prediction.makespan);
}

// Makespans are whole nanoseconds of the simulator, so that they compare exactly. The baselines are
// planned as `compare` plans them.
TEST(BaselineSearch, LeavesNoBaselineShorterThanThePlan) {
  const Costs cost = small_cost(8);
  int copied = 0;
  testing::Sample sample;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    if (!sample.next()) continue;
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PlanRequest request = testing::random_baseline_job(rng);
    request.memory_cap = random_cap(rng, request, cost);
    const PlanOutcome outcome = plan_step(request, cost);
    if (outcome.step) expect_runnable(*outcome.step, request, cost);
    if (outcome.step && !outcome.step->baseline.empty()) ++copied;
    for (const Baseline& baseline : baselines()) {
      const RatedPlan other = baseline_step(baseline, request, cost);
      if (!allowed(other, request, cost)) continue;
      ASSERT_TRUE(outcome.step.has_value()) << baseline.name << " fits";
      EXPECT_LE(outcome.step->prediction.makespan, other.prediction.makespan) << baseline.name;
    }
  }
  EXPECT_GT(copied, 0);
}

// A granule holds the whole sequence, so that the search cannot cut it: its one MicroPack keeps all
// rows. Seq1F1B cuts it into slices.
PlanRequest one_granule() {
  return {.lengths = {Tokens(4000)}, .pp = 4, .granularity = Tokens(4096), .context = Tokens(4000)};
}

TEST(BaselineSearch, IsShorterWhereTheSearchMayNotCut) {
  const Costs cost = small_cost();
  PlanRequest request = one_granule();
  const RatedPlan step = *plan_step(request, cost).step;
  EXPECT_EQ(step.baseline, "seq1f1b");
  EXPECT_EQ(step.plan, tuned_baseline(baseline_named("seq1f1b"),
                                      {request.job(cost), request.lengths, request.choices(), cost})
                           .step.plan);
  // Without room in a pack for the sequence there is no baseline.
  request.context = Tokens(3999);
  EXPECT_EQ(plan_step(request, cost).step->baseline, "");
}

TEST(BaselineSearch, LeavesOutBaselinesThatMergeMoreThanIsAllowed) {
  // Two sequences of 16,384 tokens on four replicas: Megatron's hybrid context parallelism gives
  // each two replicas, 8,192 tokens on each.
  const RecomputingCosts cost{small_cost(4)};
  const SequenceLengths lengths(2, Tokens(16384));
  const Job job{
      .layout = balanced_layout(cost, lengths, 1), .replicas = 4, .context = Tokens(16384)};
  const Choices alone{.most_merged = 1};
  const Choices pairs{.most_merged = 2};
  const BaselineSearchResult apart = search_baselines(all_baselines({job, lengths, alone, cost}));
  const BaselineSearchResult merged = search_baselines(all_baselines({job, lengths, pairs, cost}));
  EXPECT_EQ(most_merged(apart.step->plan), 1);
  EXPECT_EQ(most_merged(merged.step->plan), 2);
  EXPECT_LT(merged.step->prediction.makespan, apart.step->prediction.makespan);
}

TEST(BaselineSearch, FindsNothingThatIsNoShorter) {
  const RecomputingCosts cost{small_cost()};
  const SequenceLengths lengths{Tokens(900), Tokens(500), Tokens(100)};
  const Job job{.layout = balanced_layout(cost, lengths, 2), .context = Tokens(1000)};
  const Choices choices;
  BaselineRequest request = all_baselines({job, lengths, choices, cost});
  const BaselineSearchResult any = search_baselines(request);
  request.below = any.step->prediction.makespan;
  EXPECT_FALSE(search_baselines(request).step.has_value());
  request.below = *request.below + Nanos(1);
  EXPECT_EQ(search_baselines(request).step->plan, any.step->plan);
}

TEST(BaselineSearch, GivesNoLongerStepWithMoreMemory) {
  // DynaPipe's steps of these five sequences are the shortest, and its list schedule is longer
  // under some caps than under smaller ones.
  Rng rng(5781335904486431);
  PlanRequest request = testing::random_request(rng);
  const Costs cost = small_cost();
  const RatedPlan free = *plan_step(request, cost).step;
  EXPECT_EQ(free.baseline, "dynapipe");
  Nanos shortest = free.prediction.makespan;
  for (Bytes cap(400'000); cap > Bytes(210'000); cap = cap - Bytes(1'000)) {
    request.memory_cap = cap;
    const RatedPlan step = *plan_step(request, cost).step;
    EXPECT_GE(step.prediction.makespan, shortest) << cap.count();
    shortest = step.prediction.makespan;
  }
}

TEST(BaselineSearch, CountsInWhatARefusalSaysIsNeeded) {
  const Costs cost = small_cost();
  PlanRequest request = one_granule();
  request.memory_cap = Bytes(1);
  const DoesNotFit why = *plan_step(request, cost).does_not_fit;
  request.context = Tokens(0);
  EXPECT_LT(why.needed, plan_step(request, cost).does_not_fit->needed);
  request.context = Tokens(4000);
  request.memory_cap = why.needed;
  const RatedPlan step = *plan_step(request, cost).step;
  EXPECT_EQ(need_of(step, cost), why.needed);
  EXPECT_FALSE(step.baseline.empty());
}

}  // namespace
}  // namespace slimpack
