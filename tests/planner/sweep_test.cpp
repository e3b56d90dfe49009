#include "slimpack/planner/sweep.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/replica_tasks.h"
#include "tests/planner/small_step.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::PlanRequest;
using testing::small_cost;

/// The step with these search options.
RatedPlan planned(const PlanRequest& request, const SearchOptions& search, const Costs& cost) {
  Choices choices = request.choices();
  choices.search = search;
  return *plan_step({request.job(cost), request.lengths, choices, cost}).step;
}

std::size_t most_packs(const RatedPlan& step) {
  std::size_t most = 0;
  for (const ReplicaPlan& replica : step.plan.replicas)
    most = std::max({most, replica.packs.forward.size(), replica.packs.backward.size()});
  return most;
}

SearchOptions with_packs(int packs) {
  return {.packs = packs, .baselines = false};
}

TEST(Sweep, CombinesAllValuesTheLastAxisFastest) {
  const std::vector<SweepAxis> axes{{"a", {}, {"1", "2"}}, {"b", {}, {"x", "y", "z"}}};
  EXPECT_EQ(combinations(axes), (std::vector<std::vector<std::size_t>>{
                                    {0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
}

RC_GTEST_PROP(Sweep, FiguresAreThoseOfThePlan, (std::uint64_t seed)) {
  Rng rng(seed);
  const PlanRequest request = testing::random_replicas(rng);
  const Costs cost = small_cost(request.dp);
  const RatedPlan step = *plan_step(request, cost).step;
  const SweepFigures figures = sweep_figures(step, cost);
  const SimulationResult again = predict(step, cost);
  RC_ASSERT(figures.tokens == total_tokens(request.lengths));
  RC_ASSERT(figures.predicted.makespan == again.makespan);
  RC_ASSERT(figures.predicted.bubble == again.bubble_ratio);
  // In any timing: no less than in the predicted one.
  RC_ASSERT(figures.predicted.peak == step_need(step, cost).bytes);
  RC_ASSERT(figures.predicted.peak >= testing::highest(again.peak_activation));
  RC_ASSERT(std::max(figures.forward_packs, figures.backward_packs) == most_packs(step));
  // The share of overheads from the terms of the model, by hand.
  const RecomputingCosts chosen = with_recompute(cost, step.plan.recompute);
  double overhead = 0, busy = 0;
  std::size_t slices = 0;
  bool zoned = false;  // a member then waits for the one with most, whose share is no sum of terms
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : replica.packs.of(pass)) {
        slices += pack.slices.size();
        zoned = zoned || !pack.zones.empty();
        for (std::int32_t r = 0; r < step.plan.layout.ranks(); ++r) {
          const PackCost own = table_of(chosen, step.plan.layout).rank(r, pass, pack.replicas);
          overhead += own.per_pack + own.per_slice * static_cast<double>(pack.slices.size());
        }
      }
  for (const Nanos rank : again.busy) busy += static_cast<double>(rank.count());
  RC_ASSERT(figures.slices == slices);
  RC_ASSERT(zoned || std::abs(figures.overhead - overhead / busy) < 1e-3);
  RC_ASSERT(figures.overhead > 0 && figures.overhead < 1);
}

TEST(Sweep, TheNumberOfMicroPacksCanBeKept) {
  PlanRequest request{.lengths = SequenceLengths(40, Tokens(300)),
                      .pp = 3,
                      .dp = 2,
                      .granularity = Tokens(16),
                      .context = Tokens(300)};
  const Costs cost = small_cost(2);
  for (const int packs : {1, 5, 24})
    EXPECT_EQ(most_packs(planned(request, with_packs(packs), cost)),
              static_cast<std::size_t>(packs));
  // The smallest budget with which everything fits into 100 may need fewer.
  const std::size_t most = most_packs(planned(request, with_packs(100), cost));
  EXPECT_LE(most, 100u);
  EXPECT_GT(most, 64u);
  // 300 tokens are 19 pieces of 16 or fewer; a replica's 20 sequences have 380.
  EXPECT_LE(most_packs(planned(request, with_packs(1000), cost)), 380u);
  EXPECT_GT(most_packs(planned(request, with_packs(1000), cost)), 256u);
}

// These are the numbers of MicroPacks that the free search begins with.
TEST(Sweep, AFreeSearchIsNoWorseThanOneThatIsKeptToANumberItTries) {
  PlanRequest request{.lengths = SequenceLengths(40, Tokens(300)),
                      .pp = 4,
                      .granularity = Tokens(16),
                      .context = Tokens(300)};
  request.lengths.emplace_back(3000);
  request.context = Tokens(3000);
  const Costs cost = small_cost();
  const Nanos free = planned(request, {}, cost).prediction.makespan;
  for (const int packs : {4, 8, 16, 32, 64})
    EXPECT_LE(free, planned(request, with_packs(packs), cost).prediction.makespan) << packs;
}

TEST(Sweep, BaselinesCanBeLeftOut) {
  const Costs cost = small_cost(4);
  const SearchOptions search{.baselines = false};
  int won = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    const PlanRequest request = testing::random_replicas(rng);
    const RatedPlan all = planned(request, {}, cost), ours = planned(request, search, cost);
    won += all.baseline.empty() ? 0 : 1;
    EXPECT_EQ(ours.baseline, "") << seed;
    EXPECT_LE(all.prediction.makespan, ours.prediction.makespan) << seed;
  }
  EXPECT_GT(won, 0);  // else the test shows nothing
}

}  // namespace
}  // namespace slimpack
