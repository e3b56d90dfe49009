#include "slimpack/planner/baseline_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/planner/baseline_orders.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/recompute_choices.h"
#include "slimpack/planner/step_problem.h"
#include "slimpack/sim/simulate.h"
#include "tests/planner/random_baseline_job.h"
#include "tests/support/sample.h"

namespace slimpack {
namespace {

using testing::PlanRequest;

/// Every tuning of every baseline against its three bounds.
void expect_bounded(const PlanRequest& request, const Costs& known, int& close) {
  const Job job = request.job(known);
  const StageTable table = stage_table(known, job, request.recompute.back());
  const StageTable cheapest = cheapest_table(known, job, request.recompute);
  BaselineBounds bounds(cheapest, request.lengths, request.most_merged);
  for (const Baseline& baseline : baselines()) {
    for (const Tuning& tuning : baseline.tunings({table, job.context, request.lengths})) {
      SCOPED_TRACE(std::string(baseline.name) + ": " + describe(tuning));
      const BaselineInput input{table, job.context, request.lengths, tuning};
      const BaselinePlan made = baseline_plan(baseline, input);
      if (most_merged(made.plan) > request.most_merged) continue;
      const Nanos makespan = predict(ordered_step(made, job.memory_cap, table), known).makespan;
      EXPECT_LE(bounds.of_kind(baseline.traits), makespan);
      if (made.discipline != Discipline::kCyclic)
        for (std::size_t r = 0; r < made.plan.replicas.size(); ++r) {
          const TaskTimes times = table.times(made.plan.replicas[r].packs, ReplicaId(r));
          EXPECT_LE(order_bound(fixed_order(made, r), times), makespan);
        }
      const MadePacks packs = made_packs(baseline, input);
      if (packs.all.empty()) continue;
      const std::int32_t group = baseline.group == nullptr ? 1 : baseline.group(input);
      EXPECT_LE(bounds.of_packs(baseline.traits, packs.all, group), makespan);
      const Nanos shares =
          bounds.of_shares(baseline.traits, dealt_packs(baseline, input, packs), group, tuning)
              .makespan;
      EXPECT_LE(shares, makespan);
      if (shares * 10 >= makespan * 9) ++close;
    }
  }
}

TEST(BaselineBounds, AreAboveNoStep) {
  const Costs cost = testing::small_cost(8);
  int close = 0, cases = 0;
  testing::Sample sample;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    if (!sample.next()) continue;
    ++cases;
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const PlanRequest request = testing::random_baseline_job(rng);
    Costs known = cost;
    if (request.backward == BackwardKind::kWhole) known.kinds.front().weight_gradient = {};
    expect_bounded(request, known, close);
  }
  EXPECT_GT(close, 5 * cases / 3);  // bounds that say something
}

}  // namespace
}  // namespace slimpack
