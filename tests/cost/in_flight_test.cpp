#include <gtest/gtest.h>

#include "slimpack/cost/stage_table.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

/// Two packs each way on three stages; all transients are 0.
TaskBytes bytes_of_two_packs() {
  const std::vector<std::vector<Bytes>> none(3, std::vector<Bytes>(2));
  TaskBytes bytes;
  bytes.forward_transient = bytes.backward_transient = bytes.input_transient =
      bytes.weight_transient = none;
  bytes.forward_input = {Bytes(10), Bytes(30)};
  bytes.backward_input = {Bytes(200), Bytes(100)};
  return bytes;
}

const StageLayout kLayout{{0, 1, 2, 3}};

Costs on_gpus() {
  Costs cost;
  cost.shape = testing::llama2_7b();
  cost.shape.set_layers(3);
  cost.dtype = Dtype::kBf16;
  cost.device.gpu = GpuMemory{};
  return cost;
}

TEST(InFlight, CountsTwoMessagesThatLeaveAndOneThatComesForEachStageBeside) {
  TaskBytes bytes = bytes_of_two_packs();
  stage_table(on_gpus(), kLayout, {}, {1}).add_in_flight(bytes);
  for (const auto* transients : {&bytes.forward_transient, &bytes.backward_transient,
                                 &bytes.input_transient, &bytes.weight_transient})
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_EQ((*transients)[0][p], Bytes(240));  // F0 and F1 leave, B0 comes: 10 + 30 + 200
      EXPECT_EQ((*transients)[1][p], Bytes(570));
      EXPECT_EQ((*transients)[2][p], Bytes(330));  // B0 and B1 leave, F1 comes: 200 + 100 + 30
    }
}

TEST(InFlight, CountsNeighboursAmongMessagesThatAreHeldTogether) {
  TaskBytes bytes = bytes_of_two_packs();
  bytes.forward_input = {Bytes(50), Bytes(1), Bytes(30), Bytes(25)};
  stage_table(on_gpus(), kLayout, {}, {1}).add_in_flight(bytes);
  EXPECT_EQ(bytes.forward_transient[0][0], Bytes(30 + 25 + 200));
}

TEST(InFlight, IsCountedStepByStep) {
  for (const Counted counted : {Counted::kTensors, Counted::kKernels, Counted::kMessages}) {
    TaskBytes bytes = bytes_of_two_packs();
    stage_table(on_gpus(), kLayout, {}, {4}).add_in_flight(bytes, counted);
    const Bytes messages = counted == Counted::kMessages ? Bytes(240) : Bytes(0);
    EXPECT_EQ(bytes.backward_transient[0], std::vector<Bytes>(2, messages));
  }
}

TEST(InFlight, CountsTheGradientsOfOtherReplicasWhereTheLastActionRuns) {
  const Bytes gradients = model_state(on_gpus(), kLayout, 1, 4).gradients;
  ASSERT_GT(gradients, Bytes(0));
  TaskBytes bytes = bytes_of_two_packs();
  for (auto* transients : {&bytes.backward_transient, &bytes.weight_transient})
    for (auto& stage : *transients) stage[1] = Bytes(1000);
  stage_table(on_gpus(), kLayout, {}, {4}).add_in_flight(bytes);
  // A backward of a middle stage sends, and the sums begin after it. They are more than 1,000
  // bytes.
  EXPECT_EQ(bytes.backward_transient[1][0], Bytes(570));
  EXPECT_EQ(bytes.backward_transient[1][1], Bytes(570) + gradients / 4 * 3);
  EXPECT_EQ(bytes.weight_transient[1][1], Bytes(1570) + gradients / 4 * 3);
  EXPECT_EQ(bytes.input_transient[1][1], Bytes(570));
  // The first stage sends nothing backward.
  const Bytes first = model_state(on_gpus(), kLayout, 0, 4).gradients;
  EXPECT_EQ(bytes.backward_transient[0][1], Bytes(1240) + first / 4 * 3);
  // In two rounds: copies of all. Of 32 members in blocks of eight, each sums its own shard and
  // those of three others, and gets seven parts of the four.
  bytes = bytes_of_two_packs();
  stage_table(on_gpus(), kLayout, {}, {32}).add_in_flight(bytes);
  EXPECT_EQ(bytes.backward_transient[1][1], Bytes(570) + gradients + gradients / 32 * 7 * 4);
  // Inside nodes of four first: three other parts of a quarter, then seven of its eighths.
  Costs cost = on_gpus();
  cost.host.ranks_per_node = 12;  // three stages of four replicas
  bytes = bytes_of_two_packs();
  stage_table(cost, kLayout, {}, {32}).add_in_flight(bytes);
  EXPECT_EQ(bytes.backward_transient[1][1], Bytes(570) + gradients / 4 * 3 + gradients / 4 / 8 * 7);
}

TEST(InFlight, IsNothingOnACpu) {
  TaskBytes bytes = bytes_of_two_packs();
  Costs cost = on_gpus();
  cost.device.gpu.reset();
  stage_table(cost, kLayout, {}, {4}).add_in_flight(bytes);
  EXPECT_EQ(bytes.backward_transient, bytes_of_two_packs().backward_transient);
}

}  // namespace
}  // namespace slimpack
