#include "slimpack/planner/activation_budget.h"

#include <gtest/gtest.h>

#include <string>

#include "slimpack/base/error.h"
#include "slimpack/cost/known_error.h"
#include "tests/planner/small_step.h"

namespace slimpack {
namespace {

// A layer of small_cost() has 64·64 + 2·64·32 + 64·64 parameters in attention, 3·64·176 in its MLP
// and 2·64 in norms: 46,208. Embedding and head have 257·64 = 16,448 each, the final norm 64. So of
// two stages of three layers the first has 155,072 and the second 155,136. fp32: 4 bytes each for
// weight and gradient, and 8 shared by two replicas: 12 · 155,136 = 1,861,632.
constexpr Bytes kStates{1'861'632};
const StageLayout kHalves{{0, 3, 6}};

Costs cost_with(Bytes memory) {
  Costs cost = testing::small_cost(2);
  cost.device.memory = memory;
  return cost;
}

TEST(ActivationBudget, IsMemoryLessAReserveAndTheLargestStates) {
  const auto budget = activation_budget(cost_with(Bytes(10'000'000)), kHalves, 2);
  ASSERT_TRUE(budget.has_value());
  EXPECT_EQ(budget->reserve, Bytes(500'000));
  EXPECT_EQ(budget->states, kStates);
  EXPECT_EQ(budget->rank, 1);
  EXPECT_EQ(budget->available(), Bytes(10'000'000 - 500'000 - 1'861'632));
  EXPECT_EQ(activation_cap(cost_with(Bytes(10'000'000)), kHalves, 2), budget->available());
}

TEST(ActivationBudget, IsUnknownWhereTheMemoryIs) {
  EXPECT_FALSE(activation_budget(cost_with(Bytes(0)), kHalves, 2).has_value());
  EXPECT_FALSE(activation_cap(cost_with(Bytes(0)), kHalves, 2).has_value());
}

TEST(ActivationBudget, LeavesWhatAGpuAndItsLibrariesTake) {
  Costs cost = cost_with(Bytes(10'000'000));
  cost.host.ranks_per_node = 4;
  cost.host.per_byte = 0;
  cost.device.gpu = GpuMemory{132, Bytes(1'000'000), Bytes(20'000), Bytes(300'000)};
  // The other replica is a peer in the group that sums gradients, and in that of merged MicroPacks.
  // So is the other stage: a node holds two replicas of two stages.
  const auto budget = activation_budget(cost, kHalves, 2, 2);
  EXPECT_EQ(budget->gpu, (GpuShare{Bytes(1'000'000), Bytes(20'000), Bytes(900'000)}));
  EXPECT_EQ(budget->reserve, Bytes(1'100'000));  // 11%, the known error on GPUs
  EXPECT_EQ(budget->available(), Bytes(10'000'000 - 1'100'000 - 1'920'000 - 1'861'632));
  EXPECT_EQ(activation_budget(cost, kHalves, 2)->gpu.communicators, Bytes(600'000));
  cost.host.per_byte = 1;  // rows are copied in a queue of its own
  EXPECT_EQ(activation_budget(cost, kHalves, 2)->gpu.allocator, Bytes(40'000));
}

TEST(ActivationBudget, KeepsFreeNoLessThanTheKnownErrorOfMemory) {
  for (const bool gpu : {false, true})
    for (const bool autograd : {false, true}) {
      Costs cost = cost_with(Bytes(1'000'000'000));
      if (gpu) cost.device.gpu.emplace();
      if (autograd) cost.autograd.emplace();
      const KnownError known = known_error(cost);
      const auto budget = activation_budget(cost, kHalves, 2);
      EXPECT_GE(static_cast<double>(budget->reserve.count()), known.memory / 100 * 1e9);
      // A rank that takes as much more than predicted as ever seen still has room.
      EXPECT_LE(static_cast<double>(budget->capacity().count()) / (1 - known.memory / 100),
                1e9 + 1.0);
    }
}

TEST(ActivationBudget, RefusesStatesThatLeaveNothing) {
  // 5% of 1,959,700 are 97,985 and leave 1,861,715; of 1,959,600, 97,980 and 1,861,620.
  EXPECT_EQ(activation_cap(cost_with(Bytes(1'959'700)), kHalves, 2), Bytes(83));
  try {
    (void)activation_cap(cost_with(Bytes(1'959'600)), kHalves, 2);
    FAIL();
  } catch (const InvalidInput& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_NE(message.find("pipeline rank 1"), std::string::npos) << message;
    EXPECT_NE(message.find("slimpack fit"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace slimpack
