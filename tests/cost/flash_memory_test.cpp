#include "slimpack/cost/attention_memory.h"

#include <gtest/gtest.h>

#include "slimpack/cost/attention_rules.h"
#include "slimpack/packflow/kernels/fa4_workspace.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"

namespace slimpack {
namespace {

/// Four query heads of 64, two of keys, in bf16: 512 bytes of a token's queries, 256 of its keys,
/// 16 of its log-sum-exps; on ten multiprocessors.
LayerWidths widths() {
  Decoder shape = testing::llama2_7b();
  shape.kinds[0].num_heads = 4;
  shape.kinds[0].num_kv_heads = 2;
  shape.kinds[0].head_dim = shape.kinds[0].value_dim = 64;
  LayerWidths w(shape.kinds[0], Dtype::kBf16);
  w.runtime.multiprocessors = 10;
  return w;
}

Slice slice(int sequence, std::int64_t begin, std::int64_t end) {
  return {SequenceId(sequence), Tokens(begin), Tokens(end)};
}

TEST(FlashMemory, OfABackwardCallIsThatOfLibtorchsKernel) {
  // 300 queries are padded to 384. ⌈10 / 4 heads⌉ = 3 copies of dQ: 3 · 384 · 4 · 64 · 4 bytes.
  // dK and dV of four heads: 2 · 1,300 · 512. Log-sum-exp and sums: (300 + 384) · 16.
  EXPECT_EQ(flash_backward_call(widths(), 1, 300, 1300), 1'179'648 + 1'331'200 + 10'944);
  // Two sequences: 150 + 2 · 128 = 406 rows; ⌈10 / 8⌉ = 2 copies: 2 · 406 · 4 · 64 · 4.
  EXPECT_EQ(flash_backward_call(widths(), 2, 150, 150), 831'488 + 2 * 150 * 512 + (150 + 406) * 16);
  // With as many key heads as query heads, dK and dV are not expanded.
  LayerWidths w = widths();
  w.shape.num_kv_heads = 4;
  EXPECT_EQ(flash_backward_call(w, 1, 300, 1300), 1'179'648 + 10'944);
  // Heads of 72 are padded to 96: 3 · 384 · 4 · 96 · 4.
  w.shape.head_dim = w.shape.value_dim = 72;
  EXPECT_EQ(flash_backward_call(w, 1, 300, 1300), 1'769'472 + 10'944);
}

/// Bytes that the library of FlashAttention-4 asks for, with `sequences` alike ones.
std::int64_t fa4_workspace(const LayerShape& shape, std::int32_t sequences, std::int32_t queries,
                           std::int32_t keys, const Fa4Tiles& tiles) {
  const auto rows = [&](std::int32_t count, std::int32_t heads) {
    return Fa4Rows{nullptr, count, heads, 0, 0};
  };
  Fa4Attention a{};
  a.q = rows(sequences * queries, shape.num_heads);
  a.k = rows(sequences * keys, shape.num_kv_heads);
  a.q_bounds = a.k_bounds = {nullptr, sequences + 1};
  Fa4Gradients d{};
  d.fixed_order = 1;
  d.longest_queries = queries;
  d.longest_keys = keys;
  return Fa4Workspace(tiles, a, d, nullptr).bytes;
}

TEST(FlashMemory, OfHopperKernelsIsTheirWorkspaceAndTheLogSumExp) {
  LayerWidths w = widths();
  w.runtime.flash_release = 4;
  // 300 queries are padded to 512 rows of 4 heads: dQ, log-sum-exp and sums of 64 + 2 numbers, and
  // 3 tiles with two locks of 4 bytes. dK and dV of two heads: 1,300 keys are padded to 1,536 rows
  // of 64 numbers, with 11 tiles. Log-sum-exp: 300 · 16.
  EXPECT_EQ(flash_backward_call(w, 1, 300, 1300),
            4 * (512 * 66 * 4 + 3 * 8) + 2 * 2 * (1536 * 64 * 4 + 11 * 8) + 4'800);
  w.runtime.flash_release = 3;
  EXPECT_EQ(flash_backward_call(w, 1, 300, 1300),
            4 * (512 * 66 * 4 + 3 * 8) + 2 * 2 * (1536 * 64 * 4 + 11 * 8) + 4'800);
  // The library rounds each of its eight parts up to 256 bytes.
  w.runtime.flash_release = 4;
  const auto expect_near = [&](const Fa4Tiles& tiles, double locks) {
    for (const std::int32_t sequences : {1, 5}) {
      const std::int64_t workspace = fa4_workspace(w.shape, sequences, 3000, 7000, tiles);
      const std::int64_t counted =
          flash_backward_call(w, sequences, sequences * 3000, sequences * 7000) -
          sequences * 3000 * w.lse;
      EXPECT_GE(counted, workspace - 8 * 256);
      EXPECT_LE(counted, static_cast<double>(workspace) * (1 + locks));
    }
  };
  expect_near({64, 128, 128}, 0.002);
  w.shape.head_dim = w.shape.value_dim = 128;
  expect_near({128, 64, 128}, 0.002);
  w.shape.num_kv_heads = 4;  // dK and dV have no sums
  expect_near({128, 64, 128}, 0.002);
}

TEST(FlashMemory, OfHopperKernelsIsTwelveAndAHalfKilobytesATokenOfASmallModel) {
  // Llama 3.2 1B: 32 heads of 64, 8 of keys: (32 · 66 + 2 · 8 · 64) · 4 = 12.5 kB beside the
  // log-sum-exp; 8B: 32 heads of 128: (32 · 130 + 2 · 8 · 128) · 4 = 24.8 kB.
  LayerWidths w = widths();
  w.runtime.flash_release = 4;
  w.shape.num_heads = 32;
  w.shape.num_kv_heads = 8;
  const auto per_token = [&] {
    constexpr std::int64_t kTokens = 1 << 17;
    return static_cast<double>(flash_backward_call(w, 1, kTokens, kTokens)) / kTokens -
           static_cast<double>(w.lse);
  };
  EXPECT_NEAR(per_token(), 12'544, 20);
  w.shape.head_dim = w.shape.value_dim = 128;
  EXPECT_NEAR(per_token(), 24'832, 40);
}

TEST(FlashMemory, OfBackwardHasTheGradientsOfAllKeysOfOneCall) {
  // dq, dk and dv of the layer: 300 · (512 + 2 · 256). fp32 dK and dV of the sequence, which open:
  // 1,300 · 1,024. The call's dQ and, over prefix and slice, dK and dV: 300 · 512 + 1,300 · 512.
  EXPECT_EQ(attention_backward_transient(widths(), {{slice(0, 1000, 1300)}}, {Tokens(1300)}),
            307'200 + 1'331'200 + 153'600 + 665'600 + flash_backward_call(widths(), 1, 300, 1300));
}

TEST(FlashMemory, OfForwardIsAnotherLogSumExpAndWhatIsJoined) {
  // One call for both: K and V end to end, 150 · 512, and the copy of the log-sum-exp, 150 · 16.
  const MicroPack whole{{slice(0, 0, 100), slice(1, 0, 50)}};
  EXPECT_EQ(attention_forward_transient(widths(), whole), 76'800 + 2'400);
  // One call with a slice that has a prefix, too: 410 keys of 512 bytes, 210 log-sum-exps.
  const MicroPack joined{{slice(0, 0, 100), slice(1, 0, 50), slice(2, 200, 260)}};
  EXPECT_EQ(attention_forward_transient(widths(), joined), 209'920 + 3'360);
  // With a call of its own for a slice with a long prefix, results are joined: 210 · (512 + 16).
  const MicroPack both{{slice(0, 0, 100), slice(1, 0, 50), slice(2, 200'000, 200'060)}};
  EXPECT_EQ(attention_forward_transient(widths(), both), 110'880);
}

TEST(JoinedSlices, AreThoseWhoseKeysAreCopiedInTheTimeOfTheCallsThatTheySave) {
  // At 512 bytes a token 2¹⁶ keys are copied in the time of a call.
  constexpr std::int64_t kKeys = kBytesOfACall / 512;
  const auto joined = [](std::vector<Slice> slices, std::optional<std::size_t> alone = {}) {
    return joined_slices(slices, 512, alone);
  };
  EXPECT_EQ(joined({slice(0, 1, kKeys)}), 1U);
  EXPECT_EQ(joined({slice(0, 5, kKeys / 2), slice(1, 5, kKeys / 2)}), 2U);
  EXPECT_EQ(joined({slice(0, 5, kKeys / 2), slice(1, 5, kKeys / 2 + 1)}), 1U);
  // Three save two calls.
  EXPECT_EQ(joined({slice(0, 5, 10), slice(1, 0, 10), slice(2, 5, 2 * kKeys - 20)}), 3U);
  EXPECT_EQ(joined({slice(0, 5, 10), slice(1, 0, 10), slice(2, 5, 2 * kKeys - 19)}), 2U);
  // Without a prefix they join in any case, until one with a prefix would have all copied.
  EXPECT_EQ(joined({slice(0, 0, kKeys), slice(1, 0, kKeys), slice(2, 0, kKeys)}), 3U);
  EXPECT_EQ(joined({slice(0, 0, kKeys), slice(1, 0, kKeys), slice(2, 1, 2)}), 2U);
  // One that must be alone.
  const std::vector<Slice> few{slice(0, 5, 10), slice(1, 5, 10), slice(2, 5, 10)};
  EXPECT_EQ(joined(few, 0), 1U);
  EXPECT_EQ(joined(few, 1), 1U);
  EXPECT_EQ(joined(few, 2), 2U);
}

TEST(FlashMemory, CanBeLeftOutToSayWhatItAdds) {
  LayerWidths without = widths();
  without.runtime.kernel_bytes = false;
  const MicroPack pack{{slice(0, 1000, 1300)}};
  EXPECT_EQ(attention_backward_transient(widths(), pack, {Tokens(1300)}) -
                attention_backward_transient(without, pack, {Tokens(1300)}),
            flash_backward_call(widths(), 1, 300, 1300));
  const MicroPack whole{{slice(0, 0, 100)}};
  EXPECT_EQ(attention_forward_transient(widths(), whole), 1'600);  // 100 · 16
  EXPECT_EQ(attention_forward_transient(without, whole), 0);
}

TEST(FlashMemory, IsCountedOnGpusThatTheKernelRunsOn) {
  const auto backward = [](Costs cost) {
    const StageLayout layout{{0, static_cast<std::int32_t>(cost.shape.num_layers())}};
    const PackPlan packs{{{{slice(0, 0, 4000)}}, {{slice(0, 4000, 4096)}}},
                         {{{slice(0, 4000, 4096)}}, {{slice(0, 0, 4000)}}}};
    return task_bytes(with_recompute(cost, Recompute::kElementwise), layout, packs, {Tokens(4096)})
        .backward_transient[0][0]
        .count();
  };
  Decoder shape = testing::llama2_7b();
  shape.kinds[0].num_kv_heads = 8;
  Costs cost;
  cost.shape = shape;
  cost.dtype = Dtype::kBf16;
  const std::int64_t cpu = backward(cost);
  cost.device.gpu = gpu_memory(HardwareSpec{});
  // dK and dV of 32 heads of 128 over 4,096 tokens alone are 2 · 4,096 · 8,192 bytes.
  EXPECT_GT(backward(cost), cpu + 2 * 4096 * 8192 / 2);
  cost.dtype = Dtype::kFp32;  // which FlashAttention-2 does not take
  Costs without = cost;
  without.device.gpu.reset();
  EXPECT_EQ(backward(cost), backward(without));
}

TEST(GpuGroups, CountTheRanksOfANodeOnceInEachGroup) {
  const auto peers = [](const NodePlacement& placement, std::int32_t most_merged = 1) {
    return GpuGroups{placement, most_merged}.node_peers();
  };
  // A node of eight has two tensor-parallel ranks of four stages. Replicas are elsewhere.
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 2, .stages = 4, .replicas = 4}), 1 + 2);
  // With one stage the node has four replicas. A rank has three others, and 1 + 3 in merged groups
  // of two and of four.
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 2, .replicas = 4}, 4), 1 + 3 + 1 + 3);
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 2, .replicas = 64}, 4),
            1 + 3 + 3 + 1 + 3);  // with those that sum gradients with it first
  // With two stages the node has two replicas.
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 2, .stages = 2, .replicas = 64}, 4),
            1 + 1 + 1 + 1 + 1 + 1);
  // Stages in one node: the one before and the one after; of eight stages of four ranks, one.
  EXPECT_EQ(peers({.ranks_per_node = 8, .stages = 4}), 2);
  EXPECT_EQ(peers({.ranks_per_node = 8, .stages = 2}), 1);
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 4, .stages = 8}), 3 + 1);
  EXPECT_EQ(peers({.ranks_per_node = 8, .tensor = 8, .stages = 8}), 7);
  EXPECT_EQ(peers({.stages = 3, .replicas = 5}), 4 + 2);
  EXPECT_EQ(peers({}), 0);
}

TEST(NodePlacement, SumsGradientsOfNeighboursThatDivideNodesAndJob) {
  const auto summed = [](std::int32_t ranks_per_node, std::int32_t tensor, std::int32_t replicas) {
    return NodePlacement{.ranks_per_node = ranks_per_node, .tensor = tensor, .replicas = replicas}
        .replicas_summed_in_node();
  };
  EXPECT_EQ(summed(8, 2, 16), 4);
  EXPECT_EQ(summed(8, 2, 4), 1);  // all on one node
  EXPECT_EQ(summed(8, 2, 6), 2);  // four and two
  EXPECT_EQ(summed(8, 2, 5), 1);
  EXPECT_EQ(summed(8, 3, 16), 1);  // some stand on two nodes
  EXPECT_EQ(summed(6, 1, 12), 2);  // 3 is no power of two
  EXPECT_EQ(summed(0, 1, 64), 1);  // one node
}

TEST(NodePlacement, HoldsGroupsThatNoNodeDivides) {
  const NodePlacement p{.ranks_per_node = 8, .tensor = 2, .stages = 2, .replicas = 16};
  EXPECT_TRUE(p.holds_tensor());
  EXPECT_TRUE(p.holds_stages());
  EXPECT_TRUE(p.holds_replicas(2));
  EXPECT_FALSE(p.holds_replicas(4));
  // Six ranks of a replica: the second replica is divided, unless the job has one alone.
  EXPECT_FALSE((NodePlacement{8, 2, 3, 2}.holds_stages()));
  EXPECT_TRUE((NodePlacement{8, 2, 3, 2}.holds_tensor()));
  EXPECT_TRUE((NodePlacement{8, 2, 3, 1}.holds_stages()));
  EXPECT_FALSE((NodePlacement{8, 16, 1, 1}.holds_tensor()));
  EXPECT_TRUE((NodePlacement{0, 16, 4, 64}.holds_replicas(64)));
}

}  // namespace
}  // namespace slimpack
