#include <gtest/gtest.h>

#include "slimpack/cost/cost_model.h"
#include "tests/cost/round_hardware.h"
#include "tests/cost/shapes.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::llama2_7b;
using testing::round_hardware;

Costs llama_with_adapters(const HardwareSpec& hardware, std::int64_t rank) {
  return with_adapters(cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware), rank, hardware);
}

// Llama 2 7B: q, k, v and o take and give 4,096 numbers, gate and up take as many and give 11,008,
// down the other way. Together the seven take 6 · 4096 + 11008 = 35,584 and give 5 · 4096 + 2 ·
// 11008 = 42,496, so adapters of rank 16 have 16 · 78,080 = 1,249,280 parameters a layer.
TEST(AdapterCosts, GivesAdaptersTheTimeOfWhatTheyMove) {
  const HardwareSpec hardware = round_hardware();
  const Costs whole = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  const Costs cost = llama_with_adapters(hardware, 16);
  const LayerCosts &all = whole.kinds.front(), &layer = cost.kinds.front();
  // 2 bytes each at 1 ns: what the maps took is read, what they gave is read and written.
  EXPECT_DOUBLE_EQ(layer.forward.per_token - all.forward.per_token, 2 * (35584 + 2 * 42496));
  // Backward lacks the weights' gradients and has those of the adapters' inputs and weights.
  EXPECT_DOUBLE_EQ(layer.weight_gradient.per_token, 2 * 78080);
  EXPECT_NEAR(
      layer.backward.per_token,
      all.backward.per_token - all.weight_gradient.per_token + 2 * (42496 + 2 * 35584) + 2 * 78080,
      1e-6);
  // Two launches for each of seven maps, of which forward's overhead of 60 us has twelve: 70 us.
  EXPECT_DOUBLE_EQ(layer.forward.per_pack - all.forward.per_pack, 70e3);
  EXPECT_DOUBLE_EQ(layer.backward.per_pack,
                   all.backward.per_pack - all.weight_gradient.per_pack + 140e3);
  EXPECT_EQ(layer.forward.per_pair, all.forward.per_pair);
  EXPECT_EQ(layer.backward.per_pair, all.backward.per_pair);
  EXPECT_EQ(cost.optimizer_per_parameter, 28);  // fp32, without a copy in bf16
  EXPECT_EQ(cost.trained, (TrainedPart{{{1249280, 1249280}}, {}, 4}));
}

TEST(AdapterCosts, GivesWideAdaptersTheTimeOfTheirFlops) {
  HardwareSpec hardware = round_hardware();
  hardware.memory_bandwidth = 1e18;
  // 2 · 1,249,280 FLOPs at 400e12.
  EXPECT_NEAR(llama_with_adapters(hardware, 16).kinds.front().weight_gradient.per_token, 6.2464,
              1e-9);
}

TEST(AdapterCosts, FreezesEmbeddingAndHeadBesideAdapters) {
  HardwareSpec hardware = round_hardware();
  const EdgeTime trained =
      cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware).ends.head_backward;
  const EndCosts ends = llama_with_adapters(hardware, 16).ends;
  EXPECT_EQ(ends.embedding_backward, EdgeTime());
  // Two of three products.
  EXPECT_NEAR(ends.head_backward.per_token, trained.per_token * 2 / 3, 1e-6);
  // A block reads the matrix twice, and with gradients reads and writes sums of twice its bytes:
  // the time of six readings. Half a block and 120 us in each MicroPack.
  hardware.linear_half_rows = 98;
  const Costs whole = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  const Costs frozen = with_adapters(whole, 16, hardware);
  EXPECT_NEAR(frozen.ends.head_backward.per_pack - 120e3,
              (whole.ends.head_backward.per_pack - 120e3) / 3, 1e-6);
}

TEST(AdapterCosts, KnowsAdaptersOfDenseModelsUpToTheirWidth) {
  EXPECT_EQ(llama_with_adapters(round_hardware(), 4096).trained->kinds.front().parameters,
            4096 * 78080);
  expect_invalid_input([] { (void)llama_with_adapters(round_hardware(), 4097); },
                       {"model.adapter_rank is 4097", "hidden_size, 4096", "lower rank"});
  Costs experts = cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware());
  experts.shape.kinds.front().experts = 8;
  expect_invalid_input([&] { (void)with_adapters(experts, 16, round_hardware()); },
                       {"model.adapter_rank is 16", "experts", "slimpack.torch.profile"});
}

}  // namespace
}  // namespace slimpack
