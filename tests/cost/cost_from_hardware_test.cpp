#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/recomputed_cost.h"
#include "tests/cost/round_hardware.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::llama2_70b;
using testing::llama2_7b;
using testing::round_hardware;

TEST(CostFromHardware, GivesEveryRankItsOwnWayToTheHost) {
  HardwareSpec hardware = round_hardware();
  for (const std::int32_t tp : {1, 8})
    EXPECT_EQ(cost_from_hardware(llama2_70b(), Dtype::kBf16, hardware, tp).host.per_byte, 8);
  // Rounding may double what rows take.
  hardware.host_memory_bytes = Bytes(1000);
  EXPECT_EQ(cost_from_hardware(llama2_70b(), Dtype::kBf16, hardware).host.memory, Bytes(500));
  hardware.host_bandwidth = 0;
  EXPECT_EQ(cost_from_hardware(llama2_70b(), Dtype::kBf16, hardware).host.per_byte, 0);
}

TEST(CostFromHardware, DividesFlopsByAchievedSpeeds) {
  const Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware());
  const LayerCosts& layer = cost.kinds.front();
  // 404,750,336 FLOPs per token and layer (2 · 202,375,168 weights) at 400 FLOPs/fs: 1011.9 ns.
  // Attention adds 0.5 ns for each of 32 heads; backward 2.5 times as much, for its work.
  EXPECT_DOUBLE_EQ(layer.forward.per_token, 404750336.0 / 400e3 + 16);
  EXPECT_DOUBLE_EQ(layer.backward.per_token, 2 * 404750336.0 / 400e3 + 40);
  // 4 · 4,096 FLOPs per pair; backward 2.5 times as many at its own speed.
  EXPECT_DOUBLE_EQ(layer.forward.per_pair, 16384.0 / 320e3);
  EXPECT_DOUBLE_EQ(layer.backward.per_pair, 40960.0 / 256e3);
  EXPECT_EQ(layer.forward.per_pack, 60000);
  EXPECT_EQ(layer.backward.per_pack, 120000);
  EXPECT_EQ(layer.forward.per_slice, 3000);
  EXPECT_EQ(layer.backward.per_slice, 3000);
  // Head: 2 · 131,072,000 forward and twice that backward, both in the backward pass.
  EXPECT_DOUBLE_EQ(cost.ends.head_backward.per_token, 6 * 131072000.0 / 400e3);
  EXPECT_EQ(cost.ends.head_backward.per_pack, 120000);
}

/// A layer of Llama-2-70B on two tensor-parallel ranks of several replicas.
LayerCosts replicated_layer(std::int32_t replicas, std::int32_t stages = 1,
                            const ContextParallel& context = {}) {
  const Costs cost = cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware(), 2, replicas,
                                        stages, context);
  return cost.kinds.front();
}

/// Every time in the costs by its place, and what is left of backward without the parts of it that
/// some layers save or put off. What hides transfers is no time: it is as long as what it hides
/// them behind, or shorter.
std::map<std::string, double> times_of(const Costs& cost) {
  const LayerCosts& layer = cost.kinds.front();
  const auto file = nlohmann::json::parse(cost_to_json(cost)).flatten();
  std::map<std::string, double> times;
  for (const auto& [place, value] : file.items()) {
    const bool time = place.find("per_") != std::string::npos ||
                      place.find("latency") != std::string::npos ||
                      place.find("side") != std::string::npos || place == "/weight_reading";
    const bool of_backward = place.starts_with("/elementwise/") ||
                             place.starts_with("/weight_gradient/") ||
                             place.find("hidden_per_pair") != std::string::npos;
    const bool of_machine = place == "/ranks_per_node" || place.starts_with("/model/");
    if (value.is_number() && time && !of_backward && !of_machine)
      times[place] = value.get<double>();
  }
  const PackCost& backward = layer.backward;
  for (const auto& [name, a, b] :
       {std::tuple("kept", layer.elementwise, EdgeTime()),
        std::tuple("inputs", EdgeTime(), layer.weight_gradient),
        std::tuple("kept inputs", layer.elementwise, layer.weight_gradient)}) {
    times[fmt::format("{} per_pack", name)] = backward.per_pack - a.per_pack - b.per_pack;
    times[fmt::format("{} per_token", name)] = backward.per_token - a.per_token - b.per_token;
  }
  return times;
}

bool is_speed(std::string_view figure) {
  return figure.ends_with("_flops") || figure.ends_with("bandwidth") ||
         figure.ends_with("per_second");
}

RC_GTEST_PROP(CostFromHardware, TakesNoLongerOnAFasterMachine, ()) {
  const double factor = std::exp(*rc::gen::inRange(1, 200) / 20.0);  // 1.05 to 22,026
  const std::int32_t tp = *rc::gen::element(1, 2, 8);
  const Decoder shape = *rc::gen::element(llama2_7b(), llama2_70b());
  HardwareSpec base;
  base.ranks_per_node = *rc::gen::element(1, 4, 8);
  // Machines of any balance, not only today's.
  for (const HardwareField& field : hardware_fields())
    if (const auto* figure = std::get_if<double HardwareSpec::*>(&field.figure))
      base.** figure *= std::exp(*rc::gen::inRange(-100, 101) / 20.0);
  const auto costs = [&](const HardwareSpec& hardware) {
    return times_of(cost_from_hardware(shape, Dtype::kBf16, hardware, tp, 8, 4));
  };
  const auto before = costs(base);
  RC_ASSERT(before.size() > 40U);
  for (const HardwareField& field : hardware_fields()) {
    const auto* figure = std::get_if<double HardwareSpec::*>(&field.figure);
    if (figure == nullptr) continue;
    HardwareSpec faster = base;
    faster.** figure *= is_speed(field.name) ? factor : 1 / factor;
    for (const auto& [place, time] : costs(faster))
      if (time > before.at(place) * (1 + 1e-12))
        RC_FAIL(fmt::format("{} by {} makes {} longer: {} after {}", field.name, factor, place,
                            time, before.at(place)));
  }
}

TEST(CostFromHardware, SplitsTheWeightsOffBackwardsMatrixProducts) {
  const LayerCosts one =
      cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware()).kinds.front();
  // The gradients of weights have as much work as forward, and a quarter of backward's 120 us.
  EXPECT_DOUBLE_EQ(one.weight_gradient.per_token, 404750336.0 / 400e3);
  EXPECT_EQ(one.weight_gradient.per_pack, 30000);
  const LayerCosts four =
      cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware(), 4).kinds.front();
  EXPECT_DOUBLE_EQ(four.weight_gradient.per_token, 404750336.0 / 400e3 / 4);
  EXPECT_EQ(four.weight_gradient.per_pack, 30000);
  // To the gradients of inputs are left as much work, attention's 40 ns on a quarter of the heads,
  // and all collectives: six of 3/4 · 8,192 bytes at 2 ns.
  EXPECT_DOUBLE_EQ(four.backward.per_token - four.weight_gradient.per_token,
                   404750336.0 / 400e3 / 4 + 10 + 6 * 12288);
  EXPECT_EQ(four.backward.per_pack - four.weight_gradient.per_pack, 90000 + 6 * 7000);
}

TEST(CostFromHardware, FindsElementwiseWorkInWhatItMoves) {
  HardwareSpec hardware = round_hardware();
  // Norms 4 · 4,096 and the activation 3 · 11,008 numbers of 2 bytes, each as long as 600e12 /
  // 3.35e12 FLOPs at 400 FLOPs/fs, and three sixteenths of 120 us.
  const LayerCosts one = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware).kinds.front();
  EXPECT_DOUBLE_EQ(one.elementwise.per_token, (4 * 4096 + 3 * 11008) * 2 * (600 / 3.35) / 400e3);
  EXPECT_EQ(one.elementwise.per_pack, 22500);
  const LayerCosts four = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware, 4).kinds.front();
  EXPECT_DOUBLE_EQ(four.elementwise.per_token, one.elementwise.per_token / 4);
  // fp64 has numbers of 8 bytes. Of a narrow layer they would be most of the products: a tenth of
  // these at most.
  Decoder narrow = llama2_7b();
  narrow.kinds[0].hidden_size = narrow.kinds[0].dense_width = 256;
  narrow.kinds[0].num_heads = narrow.kinds[0].num_kv_heads = 2;
  const LayerCosts tenth = cost_from_hardware(narrow, Dtype::kFp64, hardware).kinds.front();
  EXPECT_DOUBLE_EQ(tenth.elementwise.per_token, 0.1 * 2 * tenth.weight_gradient.per_token);
}

TEST(CostFromHardware, OnAGpuFollowsTheKernelsOfTheBuild) {
  HardwareSpec hardware = round_hardware();
  hardware.linear_half_rows = 100;
  const auto on_gpu = [&](bool fused, Decoder shape = llama2_7b(), Dtype dtype = Dtype::kBf16) {
    hardware.fused_kernels = fused;
    return with_gpu(cost_from_hardware(shape, dtype, hardware), hardware);
  };
  const Costs anywhere = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  const Costs libtorch = on_gpu(false), fused = on_gpu(true);
  EXPECT_FALSE(libtorch.device.gpu->fused_kernels);
  EXPECT_EQ(libtorch.kinds.front().elementwise, anywhere.kinds.front().elementwise);
  EXPECT_EQ(libtorch.ends.head_backward, anywhere.ends.head_backward);
  // Backward of fused kernels gives what a layer that keeps everything has.
  EXPECT_EQ(fused.kinds.front().elementwise, EdgeTime());
  // 32,000 words: blocks of 4,096 rows, fused 16,384. A block reads or writes the matrix six times
  // as long as 100 rows take: 2 bytes twice, and sums of 4 bytes twice, are 6 · 2.
  const double block = 6 * 100 * 2 * 32000.0 * 4096 / 400e3;
  EXPECT_DOUBLE_EQ(libtorch.ends.head_backward.per_token - fused.ends.head_backward.per_token,
                   block / 4096 - block / 16384);
  EXPECT_EQ(fused.ends.head_backward.per_pack, libtorch.ends.head_backward.per_pack);
  // Norms of q and k are libtorch's; so is everything of wider numbers.
  Decoder normalised = llama2_7b();
  normalised.kinds[0].qk_norm = QkNorm::kPerHead;
  EXPECT_EQ(on_gpu(true, normalised).kinds.front().elementwise, anywhere.kinds.front().elementwise);
  Costs fp32 = on_gpu(true, llama2_7b(), Dtype::kFp32);
  fp32.device.gpu.reset();
  EXPECT_EQ(fp32, cost_from_hardware(llama2_7b(), Dtype::kFp32, hardware));
}

TEST(CostFromHardware, CarriesWhatTheSpecificationStates) {
  Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware());
  EXPECT_EQ(cost.origin.source, "hardware: round");
  EXPECT_EQ(cost.dtype, Dtype::kBf16);
  EXPECT_EQ(cost.shape, llama2_7b());
  EXPECT_EQ(cost.tp, 1);
  EXPECT_EQ(cost.device.memory, Bytes(1000));
  EXPECT_EQ(cost.device.peak_flops, 1000e12);
  EXPECT_EQ(cost.host.ranks_per_node, 8);
  EXPECT_EQ(cost.origin.fit_error, 0);
  cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, HardwareSpec{});
  EXPECT_EQ(cost.origin.source, "hardware");
}

TEST(CostFromHardware, CountsTheBytesThatMemoryMoves) {
  // A nanosecond a byte. K and V of a prefix token: 2 · 4,096 elements of 2 bytes; backward twice,
  // and dK and dV read and written in fp32: 8,192 · (2·2 + 2·4).
  const Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware());
  EXPECT_DOUBLE_EQ(cost.kinds.front().forward.per_prefix_token, 16384);
  EXPECT_DOUBLE_EQ(cost.kinds.front().backward.per_prefix_token, 98304);
  // A row of 4,096 is read and written; backward its gradient is read and an fp32 row updated.
  EXPECT_DOUBLE_EQ(cost.ends.embedding_forward.per_token, 4096 * 4);
  EXPECT_DOUBLE_EQ(cost.ends.embedding_backward.per_token, 4096 * (2 + 8));
  EXPECT_EQ(cost.ends.embedding_forward.per_pack, 0);
  // Seven words of 4 or 8 bytes; in bf16 the weight's copy of 2 besides.
  EXPECT_DOUBLE_EQ(cost.optimizer_per_parameter, 30);
  const auto optimizer = [](Dtype dtype) {
    return cost_from_hardware(llama2_7b(), dtype, round_hardware()).optimizer_per_parameter;
  };
  EXPECT_DOUBLE_EQ(optimizer(Dtype::kFp32), 28);
  EXPECT_DOUBLE_EQ(optimizer(Dtype::kFp64), 56);
}

TEST(CostFromHardware, SendsBetweenStagesOverTheNodeIfItHoldsThem) {
  const auto transfer = [](std::int32_t tp, std::int32_t stages, std::int32_t replicas) {
    const RecomputingCosts cost{
        cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware(), tp, replicas, stages)};
    PackPlan packs;
    packs.forward = {{{{SequenceId(0), Tokens(0), Tokens(64)}}}};
    return task_times(cost, StageLayout{{0, 32}}, packs).forward_transfer[0];
  };
  // A token of 8,192 bytes; each of tp ranks sends its share. Of two stages each sends one way.
  EXPECT_EQ(transfer(1, 2, 4), Nanos(7000 + 64 * 8192 * 2));
  EXPECT_EQ(transfer(4, 2, 4), Nanos(7000 + 64 * 8192 * 2 / 4));
  EXPECT_EQ(transfer(8, 2, 4), Nanos(11000 + 64 * 8192 * 4 / 8));
  // Between two others a stage sends both ways over one link.
  EXPECT_EQ(transfer(2, 4, 4), Nanos(7000 + 64 * 8192 * 2 * 2 / 2));
  EXPECT_EQ(transfer(4, 4, 4), Nanos(11000 + 64 * 8192 * 4 * 2 / 4));
  // Three stages of each replica: the third replica stands in two nodes of eight.
  EXPECT_EQ(transfer(1, 3, 2), Nanos(7000 + 64 * 8192 * 2 * 2));
  EXPECT_EQ(transfer(1, 3, 3), Nanos(11000 + 64 * 8192 * 4 * 2));
}

TEST(CostFromHardware, TakesTwiceAsLongForTheRowsWhoseRateIsHalf) {
  HardwareSpec hardware = round_hardware();
  hardware.linear_half_rows = 100;
  const Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  const LayerCosts& layer = cost.kinds.front();
  const Costs full = cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware());
  // A layer has 202,375,168 weights in matrices and 8,192 in norms. A hundred rows of all take 200
  // FLOPs each at 400 FLOPs/fs, whatever the MicroPack; the matrices' rows take 101,187.584 ns.
  const double reading = 202383360 * 200.0 / 400e3;
  EXPECT_DOUBLE_EQ(layer.weight_reading, reading);
  EXPECT_DOUBLE_EQ(layer.forward.per_pack, 60000 + reading);
  EXPECT_NEAR(reading / (100 * 404750336.0 / 400e3), 1, 1e-4);
  EXPECT_EQ(layer.forward.per_token, full.kinds.front().forward.per_token);
  // Input gradients read the weights, too. Those of weights read and write sums of 4 bytes where
  // forward reads weights of 2: four times as much.
  EXPECT_DOUBLE_EQ(layer.backward.per_pack, 120000 + 5 * reading);
  EXPECT_DOUBLE_EQ(layer.weight_gradient.per_pack, 30000 + 4 * reading);
  // The head has 131,072,000 weights: 65,536 ns for each of two readings, four times as much for
  // the sums. It takes 4,096 rows at once, and half of a block more than the tokens fill.
  const double block = 6 * 65536;
  EXPECT_DOUBLE_EQ(cost.ends.head_backward.per_pack, 120000 + block / 2);
  EXPECT_DOUBLE_EQ(cost.ends.head_backward.per_token,
                   full.ends.head_backward.per_token + block / 4096);
  // In fp32 weights have as many bytes as sums.
  const Costs fp32 = cost_from_hardware(llama2_7b(), Dtype::kFp32, hardware);
  EXPECT_DOUBLE_EQ(fp32.kinds.front().backward.per_pack, 120000 + 3 * reading);
}

TEST(CostFromHardware, ReadsOnARankOnlyItsOwnWeights) {
  HardwareSpec hardware = round_hardware();
  hardware.linear_half_rows = 100;
  const Costs one = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  const Costs four = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware, 4);
  EXPECT_DOUBLE_EQ(four.kinds.front().weight_reading, one.kinds.front().weight_reading / 4);
  EXPECT_DOUBLE_EQ(four.kinds.front().weight_gradient.per_pack - 30000,
                   (one.kinds.front().weight_gradient.per_pack - 30000) / 4);
  EXPECT_DOUBLE_EQ(four.ends.head_backward.per_pack - 120000 - 2 * 7000,
                   (one.ends.head_backward.per_pack - 120000) / 4);
}

TEST(CostFromHardware, RecomputesWithTheWeightsOfTheProductsThatItRepeats) {
  HardwareSpec hardware = round_hardware();
  hardware.linear_half_rows = 100;
  const Costs cost = cost_from_hardware(llama2_7b(), Dtype::kBf16, hardware);
  // Gate and up have 2 · 4,096 · 11,008 of 202,375,168 weights. They also take half of forward's
  // launches.
  EXPECT_DOUBLE_EQ(backward_time(cost, Recompute::kMlp).per_pack,
                   cost.kinds.front().backward.per_pack + 30000 +
                       2 * 4096 * 11008 / 202375168.0 * cost.kinds.front().weight_reading);
}

TEST(CostFromHardware, SharesTheWorkAmongTensorParallelRanks) {
  const Decoder shape = llama2_70b();
  const Costs one = cost_from_hardware(shape, Dtype::kBf16, round_hardware());
  const Costs eight = cost_from_hardware(shape, Dtype::kBf16, round_hardware(), 8);
  const LayerCosts &whole = one.kinds.front(), &part = eight.kinds.front();
  const EndCosts &all = one.ends, &own = eight.ends;
  EXPECT_EQ(eight.tp, 8);
  // A gather or scatter moves 7/8 of 16,384 bytes a token: 14,336 at 2 ns in the node, and 7 us.
  EXPECT_DOUBLE_EQ(part.forward.per_token, whole.forward.per_token / 8 + 4 * 28672);
  EXPECT_DOUBLE_EQ(part.backward.per_token, whole.backward.per_token / 8 + 6 * 28672);
  EXPECT_DOUBLE_EQ(part.forward.per_pack, whole.forward.per_pack + 4 * 7000);
  EXPECT_DOUBLE_EQ(part.backward.per_pack, whole.backward.per_pack + 6 * 7000);
  EXPECT_DOUBLE_EQ(part.forward.per_pair, whole.forward.per_pair / 8);
  EXPECT_DOUBLE_EQ(part.backward.per_pair, whole.backward.per_pair / 8);
  EXPECT_EQ(part.forward.per_slice, whole.forward.per_slice);
  EXPECT_DOUBLE_EQ(own.embedding_forward.per_token, all.embedding_forward.per_token + 28672);
  EXPECT_DOUBLE_EQ(own.embedding_backward.per_pack, 7000);
  EXPECT_DOUBLE_EQ(own.head_backward.per_token, all.head_backward.per_token / 8 + 2 * 28672);
  EXPECT_DOUBLE_EQ(own.head_backward.per_pack, all.head_backward.per_pack + 2 * 7000);
  EXPECT_DOUBLE_EQ(eight.optimizer_per_parameter, one.optimizer_per_parameter / 8);
}

TEST(CostFromHardware, CopiesKeyHeadsBeyondTheirNumber) {
  const auto prefix = [](int tp) {
    return cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware(), tp)
        .kinds.front()
        .forward.per_prefix_token;
  };
  // 2 · 1,024 elements of 2 bytes; 8 key heads cannot be split among more than 8 ranks.
  EXPECT_DOUBLE_EQ(prefix(1), 4096);
  EXPECT_DOUBLE_EQ(prefix(8), 512);
  EXPECT_DOUBLE_EQ(prefix(16), 512);
}

TEST(CostFromHardware, LeavesTheNodeWhenTensorParallelRanksDoNotFit) {
  const Costs one = cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware());
  const Costs cost = cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware(), 16);
  // 15/16 of 16,384 bytes at 4 ns; 11 us.
  EXPECT_DOUBLE_EQ(cost.kinds.front().forward.per_token,
                   one.kinds.front().forward.per_token / 16 + 4 * 61440);
  EXPECT_DOUBLE_EQ(cost.kinds.front().forward.per_pack, 60000 + 4 * 11000);
}

TEST(CostFromHardware, GroupsOfThreeLieBetweenTwoAndFourOrBeyondTwo) {
  for (const std::int32_t known : {3, 4}) {  // groups of 2; of 2 and 4
    const RecomputingCosts cost{
        cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware(), 2, known)};
    const auto of_group = [&](std::int32_t replicas) {
      return stage_cost(cost, {{0, 1, 2, 3}}, StageId(1), Pass::kForward, replicas);
    };
    // Three replicas send to two others each, and two thirds travel: the test below has the
    // figures.
    EXPECT_NEAR(of_group(3).per_pack - of_group(1).per_pack, 4 * 7000, 1e-6);
    EXPECT_NEAR(of_group(3).per_token + of_group(3).travel.per_query - of_group(1).per_token / 3,
                (16512 * 2 + 16) * 2 / 3.0, 1e-6);
  }
}

TEST(CostFromHardware, MergesReplicasOverTheNodeWhileTheyFitAndTheNetworkBeyond) {
  const auto merges = [](std::int32_t replicas, std::int32_t stages = 1) {
    return replicated_layer(replicas, stages).merge;
  };
  EXPECT_TRUE(merges(1).empty());
  EXPECT_EQ(merges(2).size(), 1U);
  EXPECT_EQ(merges(7).size(), 2U);
  const auto merge = merges(8);
  ASSERT_EQ(merge.size(), 3U);
  // On one of two tensor-parallel ranks: 32 heads; Q and O have 4,096 elements of 2 bytes, the
  // log-sum-exp one of 4 per head. Forward Q, O and log-sum-exp: 16,512 bytes. Backward dO, Q, O,
  // log-sum-exp and dQ: 32,896. At 2 ns a byte in the node. The kernel takes 0.5 ns for a row and
  // head, 16 ns for all; backward 2.5 times as much. Of all of that g replicas add (g − 1)/g.
  // Queries go to g − 1 others and results come back, 7 us each. Of the rows a gth is what the last
  // member returns: O with the log-sum-exp, 8,320 bytes, or dQ, 8,192. Nothing hides that.
  EXPECT_EQ(merge[0].forward, (EdgeTime{2 * 7000, 16 / 2.0 + 8320 * 2 / 2.0}));
  EXPECT_EQ(merge[0].backward, (EdgeTime{2 * 7000, 40 / 2.0 + 8192 * 2 / 2.0}));
  EXPECT_EQ(merge[1].forward, (EdgeTime{6 * 7000, 16 * 0.75 + 8320 * 2 / 4.0}));
  EXPECT_EQ(merge[1].backward, (EdgeTime{6 * 7000, 40 * 0.75 + 8192 * 2 / 4.0}));
  EXPECT_EQ(merge[0].forward_travel.per_query, 16512 * 2 / 2.0 - 8320 * 2 / 2.0);
  EXPECT_EQ(merge[1].backward_travel.per_query, 32896 * 2 * 0.75 - 8192 * 2 / 4.0);
  // A node of eight ranks has four of eight replicas of two ranks. Three others are inside the
  // node; four are outside, at 4 ns a byte and 11 us. An eighth of a row goes to each.
  const double latency = 2 * (3 * 7000 + 4 * 11000), per_byte = (3 * 2 + 4 * 4) / 8.0;
  EXPECT_EQ(merge[2].forward, (EdgeTime{latency, 16 * 0.875 + 8320 * 4 / 8.0}));
  EXPECT_EQ(merge[2].backward, (EdgeTime{latency, 40 * 0.875 + 8192 * 4 / 8.0}));
  EXPECT_EQ(merge[2].forward_travel.per_query, 16512 * per_byte - 8320 * 4 / 8.0);
  // Two stages of two ranks stand between neighbouring replicas: two fit, four do not.
  EXPECT_EQ(merges(4, 2)[0], merge[0]);
  EXPECT_EQ(merges(4, 2)[1].forward,
            (EdgeTime{2 * (7000 + 2 * 11000), 16 * 0.75 + 8320 * 4 / 4.0}));
}

TEST(CostFromHardware, CallsAttentionForEveryMemberAndPart) {
  const std::vector<MergeTime> merge = replicated_layer(4).merge;
  // Two calls for each member's queries instead of one, 3 us each. A prefix token's key and value
  // on one of two ranks have 1,024 elements: 2,048 bytes forward, 12,288 backward, at a nanosecond
  // each. A member reads its share of them for every member: without sharing, so g − 1 shares more.
  EXPECT_EQ(merge[0].forward_slice, (SliceTime{3 * 3000, 2048 / 2, 0}));
  EXPECT_EQ(merge[0].backward_slice, (SliceTime{3 * 3000, 12288 / 2, 0}));
  EXPECT_EQ(merge[1].forward_slice, (SliceTime{7 * 3000, 2048 * 0.75, 0}));
  EXPECT_EQ(merge[1].backward_slice, (SliceTime{7 * 3000, 12288 * 0.75, 0}));
}

TEST(CostFromHardware, KeysTravelByTheirBytesWhileMembersAttend) {
  const LayerCosts layer = replicated_layer(4);
  const std::vector<MergeTime>& merge = layer.merge;
  // A key with its value has 2,048 bytes on one of two ranks; backward their gradients return, in 4
  // bytes each: 6,144. At 2 ns a byte, of which g replicas send (g − 1)/g.
  EXPECT_EQ(merge[0].forward_travel.per_key, 2048 * 2 / 2.0);
  EXPECT_EQ(merge[0].backward_travel.per_key, 6144 * 2 / 2.0);
  EXPECT_EQ(merge[1].forward_travel.per_key, 2048 * 2 * 0.75);
  EXPECT_EQ(merge[1].backward_travel.per_key, 6144 * 2 * 0.75);
  // A member has 1/g of the pairs. In all rounds but one something travels beside.
  EXPECT_EQ(merge[0].forward_travel.hidden_per_pair, layer.forward.per_pair / 2 / 2);
  EXPECT_EQ(merge[1].forward_travel.hidden_per_pair, layer.forward.per_pair / 4 * 0.75);
  EXPECT_EQ(merge[1].backward_travel.hidden_per_pair, layer.backward.per_pair / 4 * 0.75);
}

TEST(CostFromHardware, PassesKeysOnInARing) {
  const auto merge = [](bool route) {
    return replicated_layer(8, 1, {CpCommType::kP2P, route}).merge;
  };
  // A key with its value has 2,048 bytes, its gradients 4,096 more. In a node 2 ns a byte, and each
  // of g replicas passes on (g − 1)/g of them. Backward a last message brings gradients home.
  EXPECT_EQ(merge(false)[1].forward_travel.per_key, 2048 * 2 * 0.75);
  EXPECT_EQ(merge(false)[1].backward_travel.per_key, 6144 * 2 * 0.75);
  EXPECT_EQ(merge(false)[1].backward.per_token - merge(false)[1].forward.per_token,
            (40 - 16) * 0.75 + 4096 * 2 / 4.0);
  EXPECT_EQ(merge(false)[1].forward_travel.per_query, Travel::kNever);
  // A node has four of eight replicas, and its eight ranks stand in two such rings: two ranks at a
  // time send to the next node. Each of them has a card of its own, at 4 ns a byte; a route gives
  // it four cards. Meanwhile three quarters of the next bytes are dealt out at 2 ns, which takes
  // longer.
  EXPECT_EQ(merge(false)[2].forward_travel.per_key, 2048 * 4 * 0.875);
  EXPECT_EQ(merge(true)[2].forward_travel.per_key, 2048 * (0.75 * 2) * 0.875);
  EXPECT_EQ(merge(true)[1], merge(false)[1]);
}

TEST(CostFromHardware, GathersKeysBeforeAttention) {
  const Travel travel = replicated_layer(4, 1, {CpCommType::kAllGather}).merge[1].backward_travel;
  EXPECT_EQ(travel, (Travel{Travel::kNever, 6144 * 2 * 0.75, 0}));
}

TEST(CostFromHardware, AddsLinksToWhatWasMeasuredWithoutThem) {
  const HardwareSpec hardware = round_hardware();
  Costs measured = cost_from_hardware(llama2_70b(), Dtype::kBf16, hardware, 2, 4);
  const Costs whole = measured;
  // Without messages: as a profile in virtual time finds it.
  measured.transfer.latency = measured.transfer.per_byte = 0;
  measured.reduction.latency = measured.reduction.per_byte = 0;
  for (MergeTime& merge : measured.kinds.front().merge)
    merge = {{100, 0}, {100, 0}, {}, {}, {.per_query = 5, .per_key = 3}, {}};
  const Costs linked = with_links(measured, hardware, 4, 1, {});
  EXPECT_EQ(linked.transfer.latency, whole.transfer.latency);
  EXPECT_EQ(linked.reduction.per_byte, whole.reduction.per_byte);
  EXPECT_EQ(linked.kinds.front().merge[1].forward_travel,
            whole.kinds.front().merge[1].forward_travel);
  // The measured time of a key that travels stays, and nothing hides it.
  EXPECT_EQ(linked.kinds.front().merge[1].forward.per_token, 3 + 8320 * 2 / 4.0);
  EXPECT_EQ(linked.kinds.front().merge[1].forward.per_pack, 100 + 6 * 7000);
}

TEST(CostFromHardware, ReducesGradientsInsideTheNodeFirst) {
  const auto cost = [](std::int32_t replicas) {
    return cost_from_hardware(llama2_70b(), Dtype::kBf16, round_hardware(), 2, replicas);
  };
  EXPECT_DOUBLE_EQ(cost(4).reduction.per_byte, 2);
  EXPECT_DOUBLE_EQ(cost(4).reduction.latency, 7000);
  // Five do not share nodes evenly: all bytes cross cards.
  EXPECT_DOUBLE_EQ(cost(5).reduction.per_byte, 4);
  EXPECT_DOUBLE_EQ(cost(5).reduction.latency, 11000);
  // Four of 8 replicas share a node. A rank sends 7/8: 6/8 stay in the node and 1/8 leaves it.
  EXPECT_DOUBLE_EQ(cost(8).reduction.per_byte, (6 * 2 + 1 * 4) / 7.0);
  EXPECT_DOUBLE_EQ(cost(8).reduction.latency, (7000 + 11000) / 2.0);  // of two rounds
  // Two of 6 replicas share a node. A rank sends 5/6: 3/6 stay in the node and 2/6 leave it.
  EXPECT_DOUBLE_EQ(cost(6).reduction.per_byte, (3 * 2 + 2 * 4) / 5.0);
}

TEST(CostFromHardware, RefusesTensorParallelismThatDoesNotDivideTheHeads) {
  for (const std::int32_t tp : {0, -1, 3, 64}) {
    expect_invalid_input(
        [&] { (void)cost_from_hardware(llama2_7b(), Dtype::kBf16, round_hardware(), tp); },
        {fmt::format("tp is {}", tp), "32 attention heads"});
  }
}

}  // namespace
}  // namespace slimpack
