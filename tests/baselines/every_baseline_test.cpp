// Baselines in cases that planned steps, which the conformance suite checks, never ask for.
#include <gtest/gtest.h>

#include "tests/baselines/cases.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::input_of;
using testing::job_of;

TEST(EveryBaseline, HasAPlanOfNoSequences) {
  const Costs cost = testing::round_cost();
  const StageLayout layout = testing::one_layer_each(2);
  const SequenceLengths none;
  for (const Baseline& baseline : baselines())
    for (const std::int32_t replicas : {1, 3, 8}) {
      SCOPED_TRACE(baseline.name);
      const StepPlan plan =
          baseline_plan(baseline, input_of(job_of(layout, replicas, Tokens(1)), none, cost)).plan;
      EXPECT_EQ(check_plan(plan), std::vector<std::string>{});
      EXPECT_EQ(plan.layout, layout);
      EXPECT_EQ(plan.replicas, std::vector<ReplicaPlan>(static_cast<std::size_t>(replicas)));
    }
}

TEST(EveryBaseline, HoldsSequencesThatTakeNoTime) {
  Costs cost = testing::round_cost();
  for (PackCost* time : {&cost.kinds.front().forward, &cost.kinds.front().backward}) *time = {};
  for (EdgeTime* time :
       {&cost.ends.embedding_forward, &cost.ends.embedding_backward, &cost.ends.head_backward})
    *time = {};
  const StageLayout layout = testing::one_layer_each(2);
  const SequenceLengths lengths{Tokens(3), Tokens(1), Tokens(4)};
  for (const Baseline& baseline : baselines())
    for (const std::int32_t replicas : {1, 4}) {
      SCOPED_TRACE(baseline.name);
      BaselineInput input = input_of(job_of(layout, replicas, Tokens(4)), lengths, cost);
      for (Tuning& tuning : baseline.tunings(input)) {
        input.tuning = std::move(tuning);
        const StepPlan plan = baseline_plan(baseline, input).plan;
        EXPECT_EQ(check_plan(plan), std::vector<std::string>{});
      }
    }
}

}  // namespace
}  // namespace slimpack
