#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using testing::round_model;
using testing::round_model_of_replicas;
using testing::slice;

const StageLayout kTwoStages{{0, 1, 3}};
constexpr StageId kFirst{std::int32_t{0}};
constexpr StageId kLast{std::int32_t{1}};

TEST(StageCost, SharesAllButTheSliceItselfAndAddsTheExchange) {
  const RecomputingCosts cost{round_model_of_replicas()};
  const Slice s = slice(0, 4, 6);  // 2 tokens, prefix 4, pairs 5 + 6 = 11
  const auto time = [&](StageId stage, Pass pass, std::int32_t replicas) {
    return stage_cost(cost, kTwoStages, stage, pass, replicas)(s);
  };
  // One layer and the embedding: 10 + (2 + 5)·2 + 11 + 3·4.
  EXPECT_EQ(time(kFirst, Pass::kForward, 1), 47);
  // Two replicas: 10 + ((2 + 5)/2 + 0.5)·2 + 11/2 + 12/2.
  EXPECT_EQ(time(kFirst, Pass::kForward, 2), 10 + 8 + 5.5 + 6);
  // Four: 10 + ((2 + 5)/4 + 0.25)·2 + 11/4 + 12/4.
  EXPECT_EQ(time(kFirst, Pass::kForward, 4), 10 + 4 + 2.75 + 3);
  // Two layers and the head, backward: 2·20 + ((2·4 + 11)/2 + 2·1.5)·2 + 2·2·11/2 + 2·6·4/2.
  EXPECT_EQ(time(kLast, Pass::kBackward, 2), 40 + 25 + 22 + 24);
}

TEST(StageCost, CountsWhatMergedSlicesAdd) {
  RecomputingCosts cost{round_model_of_replicas()};
  cost.kinds.front().merge[0].forward_slice = {7, 0.25, 0};
  cost.kinds.front().merge[0].backward_slice = {9, 0.5, 0};
  const Slice s = slice(0, 4, 6);
  // Above 29.5 forward on a layer; 7 and a quarter of each of 4 prefix tokens besides.
  EXPECT_EQ(stage_cost(cost, kTwoStages, kFirst, Pass::kForward, 2)(s), 29.5 + 8);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kLast, Pass::kBackward, 2)(s), 111 + 2 * 11);
  // A layer that runs attention again has forward's besides.
  const auto backward = [&](const RecomputingCosts& costs) {
    return stage_cost(costs, kTwoStages, kFirst, Pass::kBackward, 2)(s);
  };
  const auto full = [](const Costs& costs) { return with_recompute(costs, Recompute::kFull); };
  EXPECT_EQ(backward(full(cost)) - backward(full(round_model_of_replicas())), 11 + 8);
}

/// Costs of two replicas, forward: a query takes 0.5 ns to travel and a key 0.1 ns. Each query-key
/// pair hides `hidden_per_pair` ns of that.
Costs with_travel(double hidden_per_pair = 0) {
  Costs cost = round_model_of_replicas();
  cost.kinds.front().merge[0].forward.per_token = 0;
  cost.kinds.front().merge[0].forward_travel = {0.5, 0.1, hidden_per_pair};
  return cost;
}

TEST(StageCost, SendsKeysWhereTheyAreFasterThanQueries) {
  Costs nothing = with_travel();
  nothing.kinds.front().merge[0].forward_travel = {};
  const auto travelling = [&](const Slice& s, double hidden) {
    const auto time = [&](const Costs& cost) {
      return stage_cost(RecomputingCosts{cost}, kTwoStages, kFirst, Pass::kForward, 2)(s);
    };
    return time(with_travel(hidden)) - time(nothing);
  };
  // Two queries take 1 ns. Two keys and 4 before them take 0.6, with 8 before them 1.
  EXPECT_NEAR(travelling(slice(0, 4, 6), 0), 0.6, 1e-12);
  EXPECT_NEAR(travelling(slice(0, 8, 10), 0), 1, 1e-12);
  EXPECT_NEAR(travelling(slice(0, 20, 22), 0), 1, 1e-12);
  // 11 pairs hide 0.55 ns, or all.
  EXPECT_NEAR(travelling(slice(0, 4, 6), 0.05), 0.05, 1e-12);
  EXPECT_EQ(travelling(slice(0, 4, 6), 0.1), 0);
}

TEST(TaskTimes, SlicesTravelTogetherAndHideEachOther) {
  const std::vector<double> speed{0.01, 0.01};  // for times are whole nanoseconds
  const auto travelling = [&](std::vector<Slice> slices, double hidden) {
    const PackPlan packs{{{std::move(slices), 2}}, {}};
    const auto time = [&](const Costs& cost) {
      return task_times(RecomputingCosts{cost}, kTwoStages, packs, {2, speed}).forward[0][0];
    };
    Costs nothing = with_travel();
    nothing.kinds.front().merge[0].forward_travel = {};
    return (time(with_travel(hidden)) - time(nothing)).count();
  };
  // Four queries, 2 ns. Keys: 2 + 10, 1.2 ns; with 16 tokens before the second slice 2 ns.
  EXPECT_EQ(travelling({slice(0, 0, 2), slice(1, 8, 10)}, 0), 120);
  EXPECT_EQ(travelling({slice(0, 0, 2), slice(1, 16, 18)}, 0), 200);
  // 3 and 19 pairs hide 0.44 ns of 1.2.
  EXPECT_EQ(travelling({slice(0, 0, 2), slice(1, 8, 10)}, 0.02), 76);
}

TEST(StageCost, IsThatOfOneReplicaUnlessToldOtherwise) {
  const RecomputingCosts cost{round_model_of_replicas()};
  for (const StageId stage : {kFirst, kLast})
    for (const Pass pass : kWholePasses)
      EXPECT_EQ(stage_cost(cost, kTwoStages, stage, pass, 1),
                stage_cost(cost, kTwoStages, stage, pass));
}

TEST(StageCost, CountsLayersEdgesAndTheLatencyOfExchanges) {
  const RecomputingCosts cost{round_model_of_replicas()};
  EXPECT_EQ(stage_cost(cost, kTwoStages, kFirst, Pass::kForward).per_pack, 100 + 1000);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kFirst, Pass::kBackward).per_pack, 200 + 2000);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kLast, Pass::kForward).per_pack, 2 * 100);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kLast, Pass::kBackward).per_pack, 2 * 200 + 4000);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kFirst, Pass::kForward, 2).per_pack, 100 + 30 + 1000);
  EXPECT_EQ(stage_cost(cost, kTwoStages, kLast, Pass::kBackward, 4).per_pack,
            2 * (200 + 80) + 4000);
}

TEST(TaskTimes, OfAMergedPackAreThoseOfItsShareAndOfItsExchange) {
  PackPlan packs;
  packs.forward = {{{slice(0, 4, 6), slice(1, 0, 1)}, 2}, {{slice(2, 0, 1)}, 1}};
  packs.backward = {{{slice(0, 4, 6)}, 4}};
  const TaskTimes times =
      task_times(RecomputingCosts{round_model_of_replicas()}, kTwoStages, packs);
  // Slices of two replicas on the first stage: 29.5 (above) and 10 + 4 + 1/2; pack 1130. Alone:
  // 10 + 2 + 1 + 5 and 1100.
  EXPECT_EQ(times.forward[0], (std::vector{Nanos(1130 + 44), Nanos(1100 + 18)}));
  // Two layers: 20 + (2·2/2 + 2·0.5)·2 + 2·11/2 + 2·12/2 = 49 and 20 + 3 + 1; pack 260. Alone 26
  // and 200.
  EXPECT_EQ(times.forward[1], (std::vector{Nanos(260 + 73), Nanos(200 + 26)}));
  // Four replicas, backward, first stage: 20 + ((4 + 7)/4 + 0.75)·2 + 2·11/4 + 6·4/4 = 38.5; pack
  // 200 + 80 + 2000. Half nanoseconds round up.
  EXPECT_EQ(times.backward[0], std::vector{Nanos(2280 + 39)});
  // 80 bytes a token, half a nanosecond each, of which a replica sends its share.
  EXPECT_EQ(times.forward_transfer, (std::vector{Nanos(50 + 3 * 40 / 2), Nanos(50 + 40)}));
  EXPECT_EQ(times.backward_transfer, std::vector{Nanos(50 + 2 * 40 / 4)});
}

TEST(TaskTimes, AreDividedByTheSpeedOfEachStage) {
  PackPlan packs;
  packs.forward = {{{slice(0, 4, 6), slice(1, 0, 1)}}};
  packs.backward = {{{slice(1, 0, 1)}}};
  const std::vector<double> speed = {4, 0.5};
  const TaskTimes times =
      task_times(RecomputingCosts{round_model()}, kTwoStages, packs, {1, speed});
  // Alone 1165 and 300, backward 2233 and 4463 (cost_model_test).
  EXPECT_EQ(times.forward[0], std::vector{Nanos(291)});
  EXPECT_EQ(times.forward[1], std::vector{Nanos(600)});
  EXPECT_EQ(times.backward[0], std::vector{Nanos(558)});
  EXPECT_EQ(times.backward[1], std::vector{Nanos(8926)});
  // Links are not faster on fast ranks.
  EXPECT_EQ(times.forward_transfer, std::vector{Nanos(50 + 120)});
  // Parameters: a layer 20·(24 + 2·8) + 24·20 + 3·20·28 + 2·20 + 2·4 = 3008; first stage 4008 with
  // the embedding, last 2·3008 + 1020. Two nanoseconds each.
  EXPECT_EQ(times.step_end, (std::vector{Nanos(2 * 4008 / 4), Nanos(2 * 7036 * 2)}));
  EXPECT_EQ(times.reduce, (std::vector{Nanos(0), Nanos(0)}));
}

TEST(TaskTimes, ReduceBucketByBucketAndGatherWhatWasUpdated) {
  RecomputingCosts cost{round_model_of_replicas()};
  cost.tp = 2;
  // First stage, on a rank: a layer of 3008 / 2 parameters, 6016 bytes of fp32, and an embedding of
  // 1000 / 2, 2000 bytes. Of these 3/4 go to three other replicas at 0.25 ns: 1128 and 375, and 7
  // ns each. As much to gather; of the update, a quarter: 2·4008/4.
  TaskTimes times = task_times(cost, kTwoStages, {}, {4, {}});
  EXPECT_EQ(times.reduce[0], Nanos(1135 + 382));
  EXPECT_EQ(times.step_end[0], Nanos(2004 + 1517));
  // A rank that is twice as fast updates in half the time; the links stay.
  const std::vector<double> speed = {2, 1};
  times = task_times(cost, kTwoStages, {}, {4, speed});
  EXPECT_EQ(times.reduce[0], Nanos(1517));
  EXPECT_EQ(times.step_end[0], Nanos(1002 + 1517));
  // bf16 reduces in fp32 and gathers half as many bytes: 564 + 187.5, and 14 ns.
  cost.dtype = Dtype::kBf16;
  times = task_times(cost, kTwoStages, {}, {4, {}});
  EXPECT_EQ(times.reduce[0], Nanos(1517));
  EXPECT_EQ(times.step_end[0], Nanos(2770));
}

TEST(TaskTimes, CountWhatTheLastBackwardDoesNotHideOfTheReduction) {
  RecomputingCosts cost{round_model_of_replicas()};
  const OneReplica replication{.replicas = 2};
  PackPlan packs;
  packs.forward = {{{slice(0, 0, 1)}}, {{slice(1, 0, 100)}}};
  packs.backward = {{{slice(1, 0, 100)}}, {{slice(0, 0, 1)}}};
  // Buckets of 1020 parameters (head), three of 3008 (layers) and 1000 (embedding), half of their
  // bytes at 0.25 ns and 7 ns each: 517, 1511 and 507. The last backward takes 6696
  // (OneStageHoldsEmbeddingAndHead), a third of it a layer. With the last layer, 4464 before the
  // end, the head's and that layer's are complete, and reduced 2436 before it. The second layer's
  // starts 2232 before it, when it is complete, and takes 1511; the first one's starts with the
  // end.
  const StageLayout one_stage{{0, 3}};
  TaskTimes times = task_times(cost, one_stage, packs, replication);
  ASSERT_EQ(times.backward[0].back(), Nanos(6696));
  EXPECT_EQ(times.reduce[0], Nanos(1511 + 507));
  EXPECT_TRUE(times.reduce_after_weights.empty());
  // The last one of two stages sends first, and then reduces all that it has.
  times = task_times(cost, kTwoStages, packs, replication);
  EXPECT_EQ(times.reduce[1], Nanos(517 + 1511 + 1511));
  // Weight gradients that come last, alone, hide less: 400 ns of two layers, 200 each. −200 + 517 +
  // 1511 = 1828, and 1511.
  cost.kinds.front().weight_gradient = {200, 0};
  times = task_times(cost, kTwoStages, packs, replication);
  EXPECT_EQ(times.reduce[1], Nanos(517 + 1511 + 1511));
  EXPECT_EQ(times.reduce_after_weights[1], Nanos(1828 + 1511));
  EXPECT_EQ(times.reduce_after(Pass::kWeightGradient, 1), Nanos(1828 + 1511));
  EXPECT_EQ(times.reduce_after(Pass::kBackward, 1), times.reduce[1]);
  EXPECT_EQ(times.least_reduce(1), Nanos(1828 + 1511));
}

// A rank begins to reduce in its last action only if that sends nothing to other stages or replicas
// (compute in packflow/step/rank_step.cpp), because a device that synchronises waits for the others
// from then on. A merged backward sends to its group in every layer; weight gradients send nothing.
TEST(TaskTimes, OfAMergedLastBackwardHideNothingOfTheReduction) {
  RecomputingCosts cost{round_model_of_replicas()};
  const OneReplica replication{.replicas = 2};
  const StageLayout one_stage{{0, 3}};
  PackPlan packs;
  packs.forward = {{{slice(0, 0, 1)}}, {{slice(1, 0, 100)}, 2}};
  packs.backward = {{{slice(0, 0, 1)}}, {{slice(1, 0, 100)}, 2}};
  // All buckets after its end: 517 of the head, 1511 of each layer, 507 of the embedding.
  TaskTimes times = task_times(cost, one_stage, packs, replication);
  EXPECT_EQ(times.reduce[0], Nanos(517 + 3 * 1511 + 507));
  // A merged one before the last changes nothing (CountWhatTheLastBackwardDoesNotHide…).
  std::swap(packs.backward[0], packs.backward[1]);
  times = task_times(cost, one_stage, packs, replication);
  EXPECT_EQ(times.reduce[0], Nanos(1511 + 507));
  std::swap(packs.backward[0], packs.backward[1]);
  // Its weight gradients alone hide 200 ns a layer: head and last layer −400 + 517 + 1511 = 1628.
  cost.kinds.front().weight_gradient = {200, 0};
  times = task_times(cost, one_stage, packs, replication);
  EXPECT_EQ(times.reduce[0], Nanos(517 + 3 * 1511 + 507));
  EXPECT_EQ(times.reduce_after_weights[0], Nanos(1628 + 2 * 1511 + 507));
}

TEST(TaskTimes, RefuseAMergingThatTheCostModelDoesNotKnow) {
  PackPlan packs;
  packs.forward = {{{slice(0, 0, 8)}, 8}};
  packs.backward = packs.forward;
  const auto times = [&](const Costs& cost) {
    return [&] { (void)task_times(RecomputingCosts{cost}, kTwoStages, packs); };
  };
  const Costs of_four = round_model_of_replicas();
  expect_invalid_input(times(of_four), {"of up to 4 replicas", "merges 8", "plan again"});
  const Costs of_none = round_model();
  expect_invalid_input(times(of_none), {"of up to 1 replicas", "merges 8", "plan again"});
}

/// `cost_of`: by the number of replicas that share slices. With zones the time is that of the
/// slowest member, whose zones each add what merging adds to a pack. What depends on rows alone
/// counts where they are outside of attention.
template <class CostOf>
double time_of(const CostOf& cost_of, const MicroPack& pack) {
  std::vector<double> times;
  for (std::int32_t member = 0; member < pack.replicas; ++member) {
    double& sum = times.emplace_back(cost_of(1).per_pack);
    for (std::size_t s = 0; s < pack.slices.size(); ++s) {
      const Zone zone = pack.zone(s), holders = pack.row_zone(s);
      const double rows =
          cost_of(1).per_token * static_cast<double>(pack.slices[s].length().count());
      if (holders.has(member)) sum += rows / holders.size;
      if (!zone.has(member)) continue;
      sum += cost_of(zone.size)(pack.slices[s]) - rows / zone.size;
      if (s == 0 || pack.zone(s - 1) != zone)
        sum += cost_of(zone.size).per_pack - cost_of(1).per_pack;
    }
  }
  return *std::ranges::max_element(times);
}

RC_GTEST_PROP(TaskTimes, AreTheSumOfOverheadAndSlices, (std::uint64_t seed)) {
  Rng rng(seed);
  const RecomputingCosts cost{round_model_of_replicas()};
  const StepPlan plan =
      testing::random_step(rng, 2, testing::MergedAt::kAnywhere,
                           std::array{testing::Zoning::kWhole, testing::Zoning::kZones,
                                      testing::Zoning::kRemapped}[rng.below(3)]);
  const auto stage_layout = StageLayout{{0, 1, 3}};
  for (const ReplicaPlan& replica : plan.replicas) {
    std::vector<double> speed = {0.5 + rng.uniform(), 0.5 + rng.uniform()};
    const TaskTimes times = task_times(cost, stage_layout, replica.packs, {3, speed});
    for (const Pass pass : kWholePasses)
      for (std::size_t s = 0; s < 2; ++s) {
        const auto& list = replica.packs.of(pass);
        for (std::size_t p = 0; p < list.size(); ++p) {
          const double sum = time_of(
              [&](std::int32_t replicas) {
                return stage_cost(cost, stage_layout, StageId(s), pass, replicas);
              },
              list[p]);
          const Nanos time = (pass == Pass::kForward ? times.forward : times.backward)[s][p];
          RC_ASSERT(std::abs(static_cast<double>(time.count()) - sum / speed[s]) < 0.5 + 1e-6);
        }
      }
  }
}

TEST(TaskTimes, RefuseWhatCannotBeAddedUp) {
  const PackPlan packs{{{{slice(0, 0, 1)}}}, {{{slice(0, 0, 1)}}}};
  const auto with_latency = [&](double latency, std::int32_t replicas) {
    RecomputingCosts cost{round_model()};
    cost.transfer.latency = latency;
    return task_times(cost, kTwoStages, packs, {.replicas = replicas}).forward_transfer.front();
  };
  // Two passes over the two stages count four times the latency: it may have 2^51 ns, at 2^10
  // replicas 2^50, and the other times are below 2^20.
  const auto below = [](int bits) { return std::ldexp(1.0, bits) - std::ldexp(1.0, 20); };
  EXPECT_GT(with_latency(below(51), 1).count(), std::int64_t{1} << 50);
  expect_invalid_input([&] { (void)with_latency(std::ldexp(1.0, 51), 1); }, {"actions take"});
  EXPECT_GT(with_latency(below(50), 1 << 10).count(), std::int64_t{1} << 49);
  expect_invalid_input([&] { (void)with_latency(std::ldexp(1.0, 50), 1 << 10); },
                       {"correct the cost model's times"});
  expect_invalid_input([&] { (void)with_latency(1e300, 1); }, {"a replica's actions take"});
}

}  // namespace
}  // namespace slimpack
