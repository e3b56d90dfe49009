// Plans of several replicas.
#include <gtest/gtest.h>

#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/baseline_step.h"
#include "slimpack/planner/planner.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

using testing::highest;
using testing::PlanRequest;
using testing::small_cost;

bool any_merged(const RatedPlan& step) {
  for (const ReplicaPlan& replica : step.plan.replicas)
    for (const MicroPack& pack : replica.packs.forward)
      if (pack.replicas > 1) return true;
  return false;
}

TEST(PlanReplicas, MergesASequenceThatOutweighsTheOthers) {
  // One sequence of 16,384 tokens and 28 of 256 on four replicas: alone it takes its replica
  // several times the mean.
  PlanRequest request;
  request.lengths.assign(28, Tokens(256));
  request.lengths.emplace_back(16384);
  request.pp = 2;
  request.dp = 4;
  const Costs cost = small_cost(4);
  const RatedPlan apart = *plan_step(request, cost).step;
  EXPECT_FALSE(any_merged(apart));
  request.most_merged = 4;
  const RatedPlan merged = *plan_step(request, cost).step;
  EXPECT_TRUE(any_merged(merged));
  EXPECT_LT(merged.prediction.makespan * 2, apart.prediction.makespan);
}

/// Three long documents, and `shorts` short ones for each of `dp` replicas of two stages.
PlanRequest few_long(std::int32_t dp, std::int64_t longest, std::int64_t shorts) {
  PlanRequest request;
  request.lengths = {Tokens(longest), Tokens(longest / 2), Tokens(2 * longest / 5)};
  for (std::int64_t i = 0; i < shorts * dp; ++i)
    request.lengths.emplace_back(200 + i * 37 % 97 * 20);
  request.pp = 2;
  request.dp = request.most_merged = dp;
  request.granularity = Tokens(128);
  request.context = Tokens(longest);
  return request;
}

TEST(PlanReplicas, CutsEachGroupAsSuitsIt) {
  // The heaviest unit has many short documents, and many MicroPacks suit it. The longest document
  // is through soonest as a single one, on replicas that have nothing else to wait for. The search
  // finds that without a look at baselines, of which one has such groups.
  Decoder shape;
  shape.kinds = {{.hidden_size = 4096,
                  .num_heads = 32,
                  .num_kv_heads = 8,
                  .head_dim = 128,
                  .value_dim = 128,
                  .dense_width = 14336}};
  shape.set_layers(32);
  shape.vocab_size = 128'256;
  for (const std::int32_t tp : {1, 2}) {
    const PlanRequest request = tp == 1 ? few_long(64, 120'000, 8) : few_long(32, 40'000, 4);
    HardwareSpec hardware;
    hardware.ranks_per_node = 8;
    const Costs cost =
        cost_from_hardware(shape, Dtype::kBf16, hardware, tp, request.dp, request.pp);
    const Job job{.layout = balanced_layout(cost, request.lengths, request.pp),
                  .replicas = request.dp,
                  .context = request.context};
    Choices choices{.most_merged = request.dp};
    const TunedStep rival =
        tuned_baseline(baseline_named("context-parallel"), {job, request.lengths, choices, cost});
    choices.search.baselines = false;
    const RatedPlan own = *plan_step({job, request.lengths, choices, cost}).step;
    EXPECT_TRUE(check_step(own.plan, own.schedules).empty());
    EXPECT_LE(own.prediction.makespan, rival.step.prediction.makespan) << tp;
  }
}

TEST(PlanReplicas, MergesWhatOneReplicaCannotHold) {
  // The rows of one long sequence are most of the memory; on four replicas a quarter of them.
  PlanRequest request;
  request.lengths = {Tokens(16384), Tokens(64)};
  request.dp = 4;
  const Costs cost = small_cost(4);
  request.memory_cap = Bytes(1);
  request.memory_cap = plan_step(request, cost).does_not_fit->needed * 2 / 3;
  EXPECT_TRUE(plan_step(request, cost).does_not_fit.has_value());
  request.most_merged = 4;
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step.has_value());
  EXPECT_TRUE(any_merged(*outcome.step));
  EXPECT_LE(highest(outcome.step->prediction.peak_activation), *request.memory_cap);
}

TEST(PlanReplicas, ComputesAgainWhereMemoryIsScarce) {
  PlanRequest request;
  request.lengths.assign(8, Tokens(2048));
  request.pp = 2;
  const Costs cost = small_cost();
  request.memory_cap = Bytes(1);
  request.memory_cap = plan_step(request, cost).does_not_fit->needed - Bytes(1);
  EXPECT_TRUE(plan_step(request, cost).does_not_fit.has_value());
  request.recompute = {Recompute::kElementwise, Recompute::kAttention, Recompute::kMlp,
                       Recompute::kFull};
  const PlanOutcome outcome = plan_step(request, cost);
  ASSERT_TRUE(outcome.step.has_value());
  EXPECT_NE(outcome.step->plan.recompute.front(), Recompute::kElementwise);
  // With room for everything nothing is computed again, wherever it stands in the list.
  request.memory_cap.reset();
  std::reverse(request.recompute.begin(), request.recompute.end());
  EXPECT_EQ(plan_step(request, cost).step->plan.recompute,
            RecomputeByLayer(6, Recompute::kElementwise));
}

TEST(PlanReplicas, GivesSlowReplicasLess) {
  PlanRequest request;
  request.lengths.assign(60, Tokens(512));
  request.dp = 3;
  request.speed = {{1}, {0.25}, {1}};
  const RatedPlan step = *plan_step(request, small_cost(3)).step;
  // 60 · 0.25 / 2.25 = 6.7 of them.
  EXPECT_GE(step.plan.replicas[1].sequences.size(), 6U);
  EXPECT_LE(step.plan.replicas[1].sequences.size(), 7U);
}

}  // namespace
}  // namespace slimpack
