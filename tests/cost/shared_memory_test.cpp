// Memory where ranks share a stage or a MicroPack, or compute activations again.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/cost/round_model.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using testing::slice;

/// The example of docs/row-store.md: two layers on one stage. Bytes of a token in fp32: hidden 32,
/// q 32, k 16, FFN 64, log-sum-exp 8; a row 264.
Costs example_cost() {
  Costs cost;
  cost.shape = testing::row_store_example();
  return cost;
}
const StageLayout kOneStage{{0, 2}};

/// Ten tokens: forward [0, 6) and [6, 10), backward [5, 10) and [0, 5).
PackPlan example_packs() {
  return {{{{slice(0, 0, 6)}}, {{slice(0, 6, 10)}}}, {{{slice(0, 5, 10)}}, {{slice(0, 0, 5)}}}};
}

/// Two replicas share a sequence that is twice as long: each has the shares of example_packs().
PackPlan merged_packs() {
  return {{{{slice(0, 0, 12)}, 2}, {{slice(0, 12, 20)}, 2}},
          {{{slice(0, 10, 20)}, 2}, {{slice(0, 0, 10)}, 2}}};
}

/// Peaks of the example in bytes, which memory_model_test derives.
constexpr std::int64_t kForward = 6 * 64;
constexpr std::int64_t kBackward = 320 + 680 + 800 + 360 + 320 + 520 + 400 - 128;
constexpr std::int64_t kHead = 200 + 5 * (8 + 16 + 64 + 40 + 96);
/// The second backward pack in its attention: dy, dmiddle, dout and dqkv 5 · 160, the kernel's dq,
/// dk, dv and lse 5 · 72, two tiles 200; the head has freed six rows. The head holds more.
constexpr std::int64_t kSecondAttention = 800 + 360 + 200 - 6 * 32;

using List = std::vector<Bytes>;

TEST(SharedMemory, TensorParallelRanksHoldTheirHeadsAndTheirTokens) {
  RecomputingCosts cost{example_cost()};
  cost.tp = 2;
  const TaskBytes bytes = task_bytes(cost, kOneStage, example_packs(), {Tokens(10)});
  // Per token: x and middle 2 · 16 (half of the tokens), q and out 2 · 16, lse 4, gate and up
  // 2 · 32 = 132; the head's input 16. The one KV head is on both ranks.
  EXPECT_EQ(bytes.rows[0], (List{Bytes(6 * (2 * 132 + 16)), Bytes(4 * (2 * 132 + 16))}));
  EXPECT_EQ(bytes.kv[0], List{Bytes(10 * 2 * 32)});
  EXPECT_EQ(bytes.forward_input, (List{Bytes(6 * 16), Bytes(4 * 16)}));
  EXPECT_EQ(bytes.backward_input, (List{Bytes(5 * 16), Bytes(5 * 16)}));
  // A token in the MLP: silu(gate) ⊙ up 32; its product over all rows 32, of which sum and addend
  // are own rows, 2 · 16, and the sum becomes the head's input, 16; its row's number 8.
  EXPECT_EQ(bytes.forward_transient[0],
            (List{Bytes(6 * (32 + 32 + 16 + 8)), Bytes(4 * (32 + 32 + 16 + 8))}));
}

TEST(SharedMemory, WhatIsComputedAgainIsHeldByTheLayerThatRuns) {
  struct Expected {
    Recompute recompute;
    std::int64_t kept;       ///< of a token and layer
    std::int64_t in_pieces;  ///< of that: gate and up, which backward does not copy
    std::int64_t forward;    ///< what else forward has, beside kForward
    std::int64_t again;
  };
  // Attention drops q, out and lse, the MLP gate and up, everything all but x. Where silu(gate) ⊙
  // up is a row, 64, forward drops nothing: 1 / rms of both norms, 8, is kept as well.
  for (const auto& [recompute, kept, in_pieces, forward, again] :
       {Expected{Recompute::kNothing, 264 + 64 + 8, 128, -64, 0},
        Expected{Recompute::kElementwise, 264, 128, 0, 0},
        Expected{Recompute::kAttention, 264 - 72, 128, 72, 72},
        Expected{Recompute::kMlp, 264 - 128, 0, 128, 128},
        Expected{Recompute::kFull, 32, 0, 232, 232}}) {
    const RecomputingCosts cost = with_recompute(example_cost(), recompute);
    const TaskBytes bytes = task_bytes(cost, kOneStage, example_packs(), {Tokens(10)});
    const std::int64_t token = 2 * kept + 32;
    EXPECT_EQ(bytes.rows[0], (List{Bytes(6 * token), Bytes(4 * token)})) << to_string(recompute);
    EXPECT_EQ(bytes.kv[0], List{Bytes(640)});
    EXPECT_EQ(bytes.forward_transient[0][0], Bytes(kForward + 6 * forward));
    // The first backward pack copies its rows from two forward packs: what is dropped it computes
    // instead. In the second layer it has opened dK and dV once more, and freed four rows. The
    // second pack uses its rows in place.
    const std::int64_t second_layer = std::max<std::int64_t>(0, 320 - 4 * kept);
    EXPECT_EQ(bytes.backward_transient[0],
              (List{Bytes(kBackward + 5 * (kept - in_pieces + again - 136) + second_layer),
                    Bytes(std::max(kHead, kSecondAttention + 5 * again))}))
        << to_string(recompute);
  }
}

TEST(SharedMemory, AMergedPackHoldsItsShareAndWhatVisitsOfOneOtherReplica) {
  const TaskBytes bytes =
      task_bytes(RecomputingCosts{example_cost()}, kOneStage, merged_packs(), {Tokens(20)});
  EXPECT_EQ(bytes.rows[0], (List{Bytes(3360), Bytes(2240)}));
  EXPECT_EQ(bytes.kv[0], List{Bytes(640)});
  EXPECT_EQ(bytes.dkv[0], List{Bytes(640)});
  EXPECT_EQ(bytes.forward_input, (List{Bytes(192), Bytes(128)}));
  EXPECT_EQ(bytes.backward_input, (List{Bytes(160), Bytes(160)}));
  // In forward the MLP, where nobody visits, holds more: it has all rows of the layer.
  EXPECT_EQ(bytes.forward_transient[0], (List{Bytes(kForward), Bytes(4 * 64)}));
  // In backward dy, dmiddle and dout of the own five tokens, 5 · 96, and their dQ, 5 · 32. Keys
  // visit, for they have fewer bytes: k, v and their gradients, 5 · 64 against 5 · 136 of queries,
  // and with a prefix of five tokens 10 · 64. The kernel gives dQ, 5 · 40 with a copy of the
  // log-sum-exp, and beside that of the prefix dQ, dK, dV and two tiles of the block, 5 · 64 + 200.
  const int visited = 480 + 160 + 320 + 200 + 520;
  // With the prefix dK and dV of it, 5 · 32, folded copies of what the queries bring, 5 · 104, and
  // two tiles of 10 · 5 scores instead of the block.
  const int after_prefix = 480 + 160 + 640 + 200 + 160 + 520 + 400;
  // First pack: copied rows, one layer's dK and dV, four rows freed by the head; second: six.
  EXPECT_EQ(bytes.backward_transient[0],
            (List{Bytes(680 + 320 + after_prefix - 128), Bytes(visited - 6 * 32)}));
}

TEST(SharedMemory, OwnPacksBesideMergedOnesAreWhole) {
  PackPlan packs = merged_packs();
  packs.forward.push_back({{slice(1, 0, 3)}});
  packs.backward.push_back({{slice(1, 0, 3)}});
  const TaskBytes bytes =
      task_bytes(RecomputingCosts{example_cost()}, kOneStage, packs, {Tokens(20), Tokens(3)});
  EXPECT_EQ(bytes.rows[0], (List{Bytes(3360), Bytes(2240), Bytes(3 * 560)}));
  EXPECT_EQ(bytes.kv[0], (List{Bytes(640), Bytes(3 * 64)}));
  EXPECT_EQ(bytes.forward_transient[0][2], Bytes(3 * 64));
}

TEST(SharedMemory, HostMemoryKnowsTheActionsOfASplitBackward) {
  RecomputingCosts cost = with_recompute(example_cost(), Recompute::kOffload);
  const auto host = [&] {
    return table_of(cost, kOneStage).host_bytes(example_packs(), {Tokens(10)});
  };
  EXPECT_TRUE(host().input_transient.empty());
  cost.kinds.front().weight_gradient = {1, 1};
  const std::vector<List> nothing{List(example_packs().backward.size())};
  EXPECT_EQ(host().weight_operands, nothing);
  EXPECT_EQ(host().input_transient, nothing);
  EXPECT_EQ(host().weight_transient, nothing);
}

TEST(SharedMemory, SharesRoundUp) {
  // Three tokens on two replicas: one of them holds two.
  const PackPlan packs{{{{slice(0, 0, 3)}, 2}}, {{{slice(0, 0, 3)}, 2}}};
  const TaskBytes bytes =
      task_bytes(RecomputingCosts{example_cost()}, kOneStage, packs, {Tokens(3)});
  EXPECT_EQ(bytes.rows[0], List{Bytes(2 * 560)});
  EXPECT_EQ(bytes.kv[0], List{Bytes(2 * 64)});
}

TEST(SharedMemory, OtherAccountingCountsRowsAndNothingElse) {
  RecomputingCosts cost{example_cost()};
  cost.row_bytes = 100.3;  // 200.6 on two layers, in whole bytes 201
  const TaskBytes bytes = task_bytes(cost, kOneStage, merged_packs(), {Tokens(20)});
  EXPECT_EQ(bytes.rows[0], (List{Bytes(6 * 201), Bytes(4 * 201)}));
  EXPECT_EQ(bytes.kv[0], List{Bytes(0)});
  EXPECT_EQ(bytes.dkv[0], List{Bytes(0)});
  for (const List& none : {bytes.forward_transient[0], bytes.backward_transient[0],
                           bytes.forward_input, bytes.backward_input})
    EXPECT_EQ(none, (List{Bytes(0), Bytes(0)}));
}

RC_GTEST_PROP(SharedMemory, SharesOfAllSequencesAddUp, (std::uint64_t seed)) {
  Rng rng(seed);
  Costs plain = example_cost();
  plain.shape.set_layers(6);
  plain.tp = 1 << rng.below(2);
  const RecomputingCosts cost =
      with_recompute(plain, all_recomputations()[rng.below(kRecomputations)]);
  const StepPlan plan = testing::random_step(rng, 3, testing::MergedAt::kAnywhere);
  for (const ReplicaPlan& replica : plan.replicas) {
    const TaskBytes bytes = task_bytes(cost, plan.layout, replica.packs, plan.lengths);
    // A sequence is rounded up once, however it is cut.
    std::vector<std::int32_t> group(plan.lengths.size());
    for (const MicroPack& pack : replica.packs.forward)
      for (const Slice& s : pack.slices) group[s.sequence.index()] = pack.replicas;
    std::int64_t held = 0;
    for (const SequenceId q : replica.sequences)
      held += (plan.lengths[q.index()].count() + group[q.index()] - 1) / group[q.index()];
    Bytes rows;
    const TaskBytes host = table_of(cost, plan.layout).host_bytes(replica.packs, plan.lengths);
    for (const auto* where : {&bytes, &host})
      for (const Bytes b : where->rows[1]) rows += b;
    if (held > 0) RC_ASSERT(rows.count() % held == 0);
    RC_ASSERT(rows.count() >= held * 2 * 4 * cost.shape.hidden_size() / cost.tp);
    for (std::size_t s = 0; s < 3; ++s)
      for (const List& list : {bytes.forward_transient[s], bytes.backward_transient[s]})
        for (const Bytes b : list) RC_ASSERT(b >= Bytes(0));
  }
}

TEST(ModelState, HoldsParametersGradientsAndAShareOfTheOptimizer) {
  Costs cost = testing::round_model();
  const StageLayout layout{{0, 1, 3}};
  const auto state = [&](std::int32_t tp, Dtype dtype, std::int32_t replicas) {
    cost.tp = tp;
    cost.dtype = dtype;
    return model_state_bytes(cost, layout, 0, replicas);
  };
  // 3008 of a layer and 1000 of the embedding. fp32: weight and gradient 4 + 4, moments 4 + 4.
  EXPECT_EQ(state(1, Dtype::kFp32, 1), Bytes(4008 * 16));
  // 2004 on each of two ranks, 668 of them with their moments on each of three replicas.
  EXPECT_EQ(state(2, Dtype::kFp32, 3), Bytes(2004 * 8 + 668 * 8));
  // bf16: weight 2, gradient 4, moments and the master copy 12. fp64: 8 each.
  EXPECT_EQ(state(2, Dtype::kBf16, 3), Bytes(2004 * 6 + 668 * 12));
  EXPECT_EQ(state(2, Dtype::kFp64, 3), Bytes(2004 * 16 + 668 * 16));
  // Shares round up: 4008 / 7 = 572.6; 573 / 5 = 114.6.
  EXPECT_EQ(state(7, Dtype::kFp32, 5), Bytes(573 * 8 + 115 * 8));
  cost.tp = 2;
  cost.dtype = Dtype::kBf16;
  const ModelState parts = model_state(cost, layout, 0, 3);
  EXPECT_EQ(parts, (ModelState{Bytes(2004 * 2), Bytes(2004 * 4), Bytes(668 * 12)}));
}

TEST(ModelState, IsSharedOutAsFarAsZeroSays) {
  Costs cost = testing::round_model();
  cost.dtype = Dtype::kBf16;
  // Eight layers of 3008 parameters, an embedding of 1000 and a head of 1020: 26,084; of four
  // replicas each has 6,521. Two layers are whole.
  cost.shape.set_layers(8);
  const StageLayout layout{{0, 8}};
  const auto state = [&](std::int32_t zero, std::int32_t replicas) {
    cost.zero = zero;
    return model_state(cost, layout, 0, replicas);
  };
  const std::int64_t whole = 26084, share = 6521, shared = share + 2 * 3008;
  EXPECT_EQ(state(1, 4), (ModelState{Bytes(whole * 2), Bytes(whole * 4), Bytes(share * 12)}));
  EXPECT_EQ(state(2, 4), (ModelState{Bytes(whole * 2), Bytes(shared * 4), Bytes(share * 12)}));
  EXPECT_EQ(state(3, 4), (ModelState{Bytes(shared * 2), Bytes(shared * 4), Bytes(share * 12)}));
  // One replica has everything, once.
  EXPECT_EQ(state(3, 1), state(1, 1));
}

}  // namespace
}  // namespace slimpack
