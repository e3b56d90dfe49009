#include "slimpack/cost/reduction.h"

#include <gtest/gtest.h>

#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

using testing::round_model_of_replicas;

const StageLayout kTwoStages{{0, 1, 3}};
constexpr StageId kFirst{std::int32_t{0}};
constexpr StageId kLast{std::int32_t{1}};

// Costs of two tensor-parallel ranks, whose four replicas reduce in fp32 at 0.25 ns a byte and 7 ns
// a round. A layer has 3008 parameters: 1504 · 4 · 3/4 · 0.25 + 7 = 1135. The embedding has 1000:
// 382. Final norm and head have 1020: 389.5.
Costs of_two_ranks() {
  Costs cost = round_model_of_replicas();
  cost.tp = 2;
  return cost;
}

TEST(Reduction, IsHiddenWhileLayersRun) {
  const auto after = [&](double last) {
    return reduction_after(of_two_ranks(), kTwoStages, kLast, 4, last);
  };
  EXPECT_DOUBLE_EQ(after(0), 389.5 + 1135 + 1135);
  // Head and first layer are complete 500 ns before the end: 1024.5 after it, then the second.
  EXPECT_DOUBLE_EQ(after(1000), 1024.5 + 1135);
  // 2,000 ns before the end they take 1524.5: the second layer's starts at the end.
  EXPECT_DOUBLE_EQ(after(4000), 1135);
  EXPECT_DOUBLE_EQ(after(1e9), 1135);
}

TEST(Reduction, OfWhatIsCompleteAtTheEndIsNeverHidden) {
  for (const double last : {0.0, 1e3, 1e9})
    EXPECT_DOUBLE_EQ(reduction_after(of_two_ranks(), kTwoStages, kFirst, 4, last), 1135 + 382);
}

TEST(Reduction, BeginsInsideTheNode) {
  const auto rounds = [](std::int32_t replicas, std::int32_t ranks_per_node) {
    return reduction_rounds({.ranks_per_node = ranks_per_node, .tensor = 2, .replicas = replicas});
  };
  EXPECT_EQ(rounds(4, 8), 1);   // one node
  EXPECT_EQ(rounds(8, 8), 2);   // its four, then two nodes
  EXPECT_EQ(rounds(8, 2), 1);   // eight nodes of one
  EXPECT_EQ(rounds(64, 2), 2);  // in blocks
  EXPECT_EQ(rounds(64, 8), 3);  // sixteen nodes in blocks
  EXPECT_EQ(rounds(64, 0), 2);  // nobody knows nodes
}

TEST(Reduction, OfManyReplicasTakesTwoRounds) {
  const auto of = [&](std::int32_t replicas) {
    return reduction_after(of_two_ranks(), kTwoStages, kLast, replicas, 1e9);
  };
  EXPECT_DOUBLE_EQ(of(1), 0);
  EXPECT_DOUBLE_EQ(of(8), 7 + 6016 * 0.25 * 7 / 8);
  EXPECT_DOUBLE_EQ(of(16), 14 + 6016 * 0.25 * 15 / 16);
}

TEST(ParameterGathering, SendsEveryBucketInTheRunsFormat) {
  Costs cost = of_two_ranks();
  EXPECT_DOUBLE_EQ(parameter_gathering(cost, kTwoStages, kLast, 4), 389.5 + 1135 + 1135);
  cost.dtype = Dtype::kBf16;
  EXPECT_DOUBLE_EQ(parameter_gathering(cost, kTwoStages, kLast, 4), (2659.5 - 3 * 7) / 2 + 3 * 7);
  EXPECT_DOUBLE_EQ(parameter_gathering(cost, kTwoStages, kLast, 1), 0);
}

TEST(SharedStateTraffic, IsWhatZeroMovesForEveryMicroPack) {
  Costs cost = of_two_ranks();
  const auto traffic = [&](std::int32_t zero, Pass pass) {
    cost.zero = zero;
    return shared_state_traffic(cost, kTwoStages, kFirst, 4, pass);
  };
  EXPECT_EQ(traffic(1, Pass::kForward), 0);
  EXPECT_EQ(traffic(1, Pass::kBackward), 0);
  // A layer and the embedding; in fp32 weights have as many bytes as gradients.
  EXPECT_EQ(traffic(2, Pass::kForward), 0);
  EXPECT_DOUBLE_EQ(traffic(2, Pass::kBackward), 1517);
  EXPECT_DOUBLE_EQ(traffic(3, Pass::kForward), 1517);
  EXPECT_DOUBLE_EQ(traffic(3, Pass::kBackward), 2 * 1517);
  cost.dtype = Dtype::kBf16;
  EXPECT_DOUBLE_EQ(traffic(3, Pass::kForward), (1517 - 14) / 2.0 + 14);
  // Weights that are gathered for every MicroPack are not gathered after the step.
  EXPECT_EQ(parameter_gathering(cost, kTwoStages, kFirst, 4), 0);
}

TEST(SharedStateTraffic, IsTheLeastTimeOfAMicroPack) {
  RecomputingCosts cost{of_two_ranks()};
  cost.zero = 3;
  PackPlan packs;
  packs.forward = {{{testing::slice(0, 0, 1)}}, {{testing::slice(1, 0, 1000)}}};
  packs.backward = packs.forward;
  const TaskTimes times = task_times(cost, kTwoStages, packs, {.replicas = 4});
  // A token alone takes 1118 ns forward on the first stage (task_times_test), 1517 travel. A
  // thousand tokens hide them.
  EXPECT_EQ(times.forward[0][0], Nanos(1517));
  EXPECT_EQ(times.forward[0][1],
            task_times(RecomputingCosts{of_two_ranks()}, kTwoStages, packs).forward[0][1]);
}

}  // namespace
}  // namespace slimpack
