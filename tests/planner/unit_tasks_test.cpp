#include "slimpack/planner/unit_tasks.h"

#include <gtest/gtest.h>

#include "slimpack/planner/step_shares.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

void expect_same(const TaskTimes& times, const TaskTimes& direct) {
  EXPECT_EQ(times.forward, direct.forward);
  EXPECT_EQ(times.backward, direct.backward);
  EXPECT_EQ(times.input_gradient, direct.input_gradient);
  EXPECT_EQ(times.weight_gradient, direct.weight_gradient);
  EXPECT_EQ(times.forward_transfer, direct.forward_transfer);
  EXPECT_EQ(times.backward_transfer, direct.backward_transfer);
  EXPECT_EQ(times.reduce, direct.reduce);
  EXPECT_EQ(times.reduce_after_weights, direct.reduce_after_weights);
  EXPECT_EQ(times.step_end, direct.step_end);
}

TEST(UnitTasks, OfReplicasThatShareSequencesAreThoseOfEachAlone) {
  const Costs known = testing::small_cost(4);
  std::size_t shared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    testing::PlanRequest request = testing::random_request(rng);
    request.dp = request.most_merged = 4;
    const Job job = request.job(known);
    const Choices choices = request.choices();
    const StageTable table = stage_table(known, job.layout, {}, {job.replicas, job.speed});
    const StepProblem problem = step_problem(table, request.lengths, choices);
    for (const Assignment& assignment : step_shares(problem).assignments)
      for (const Unit& unit : units_of(request.lengths, assignment)) {
        const UnitCost of_unit = unit_cost(problem, problem.pacing.front().rank);
        UnitCutOptions options;
        options.fluid.packs = 1 + static_cast<std::int32_t>(rng.below(8));
        const std::vector<PackPlan> packs = cut_unit(unit, of_unit, options);
        const std::vector<TaskTimes> times = unit_times(problem, unit, packs);
        ASSERT_EQ(times.size(), packs.size());
        for (std::size_t i = 0; i < packs.size(); ++i)
          expect_same(times[i], table.times(packs[i], unit.replicas[i].replica));
        if (packs.size() > 1) ++shared;
      }
  }
  EXPECT_GT(shared, 50U);
}

}  // namespace
}  // namespace slimpack
