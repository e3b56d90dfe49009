#include "slimpack/cost/vocabulary_memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "slimpack/schedule/activation_ledger.h"
#include "tests/cost/shapes.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_plan.h"
#include "tests/support/token_bytes.h"

namespace slimpack {
namespace {

using testing::dkv_bytes;
using testing::kv_bytes;
using testing::row_bytes;

/// Bytes of a token in fp32: hidden 32, q 32, k 16, FFN 64, log-sum-exp 8.
const Decoder kExample = testing::row_store_example();

MicroPack one_slice(std::int64_t begin, std::int64_t end) {
  return {{{SequenceId(0), Tokens(begin), Tokens(end)}}};
}

/// Ten tokens: forward [0, 6) and [6, 10), backward [5, 10) and [0, 5).
PackPlan example_packs() {
  return {{one_slice(0, 6), one_slice(6, 10)}, {one_slice(5, 10), one_slice(0, 5)}};
}

RecomputingCosts cost_of(const Decoder& shape, Dtype dtype) {
  RecomputingCosts cost;
  cost.shape = shape;
  cost.dtype = dtype;
  return cost;
}

TaskBytes example_bytes() {
  return task_bytes(cost_of(kExample, Dtype::kFp32), {{0, 2}}, example_packs(), {Tokens(10)});
}

TEST(MemoryModel, CountsRowsKeysAndValuesByTheToken) {
  // 2 · 32 (x, middle) + 2 · 32 (q, out) + 8 (lse) + 2 · 64 (gate, up); K and V 2 · 16.
  EXPECT_EQ(row_bytes(kExample, Dtype::kFp32), Bytes(264));
  EXPECT_EQ(kv_bytes(kExample, Dtype::kFp32), Bytes(32));
  EXPECT_EQ(dkv_bytes(kExample, Dtype::kFp32), Bytes(32));
  // fp64 doubles everything; bf16 halves all but what is accumulated: 264 = 8 + 256 → 8 + 128.
  EXPECT_EQ(row_bytes(kExample, Dtype::kFp64), Bytes(528));
  EXPECT_EQ(row_bytes(kExample, Dtype::kBf16), Bytes(136));
  EXPECT_EQ(kv_bytes(kExample, Dtype::kBf16), Bytes(16));
  EXPECT_EQ(dkv_bytes(kExample, Dtype::kBf16), Bytes(32));
}

TEST(MemoryModel, KeepsTheKeysBeforeNormOnlyWhereTheyAreNormalised) {
  Decoder shape = kExample;
  shape.kinds[0].qk_norm = QkNorm::kPerHead;
  EXPECT_EQ(row_bytes(shape, Dtype::kFp32), Bytes(264 + 16));
}

TEST(MemoryModel, HoldsRowsBySliceAndKeysBySequence) {
  const TaskBytes bytes = example_bytes();
  // Two layers of 264 and the head's input, 32 a token: 6 and 4 tokens of 560.
  EXPECT_EQ(bytes.rows[0], (std::vector<Bytes>{Bytes(3360), Bytes(2240)}));
  EXPECT_EQ(bytes.kv[0], std::vector<Bytes>{Bytes(640)});  // 10 tokens · 2 layers · 32
  EXPECT_EQ(bytes.dkv[0], std::vector<Bytes>{Bytes(640)});
  EXPECT_EQ(bytes.forward_input, (std::vector<Bytes>{Bytes(192), Bytes(128)}));
  EXPECT_EQ(bytes.backward_input, (std::vector<Bytes>{Bytes(160), Bytes(160)}));
}

TEST(MemoryModel, AddsWhatIsAliveOnlyDuringAnAction) {
  const TaskBytes bytes = example_bytes();
  // Forward: silu(gate) ⊙ up, 64 a token, as the layer's output becomes the head's input.
  EXPECT_EQ(bytes.forward_transient[0], (std::vector<Bytes>{Bytes(6 * 64), Bytes(4 * 64)}));
  // B0, in its attention: copied rows but for gate and up 5 · 136 (from two forward MicroPacks);
  // dy, dmiddle, dout and dqkv 5 · (32 + 32 + 32 + 64); the kernel's dq, dk, dv and lse 5 · (32 +
  // 32 + 8), those of the prefix 5 · 32 + 5 · 32; its two heads share a key head and go in folded,
  // with copies of dO, Q, O and lse 5 · (3 · 32 + 8) and two tiles of 10 · 5 scores 2 · 200; one
  // layer's dK and dV, 320. The head has freed four rows of its input, 4 · 32.
  const int attention = 320 + 680 + 800 + 360 + 320 + 520 + 400 - 128;
  // B1, in its head: dx and targets 5 · (32 + 8); per row of the block a clamped target 8, four
  // scalars 16, n and n ⊙ weight 64, the logits 40, and in the norm's backward three times 32.
  const int head = 200 + 5 * (8 + 16 + 64 + 40 + 96);
  EXPECT_EQ(bytes.backward_transient[0], (std::vector<Bytes>{Bytes(attention), Bytes(head)}));
}

TEST(MemoryModel, TheExamplesBytesRiseAndFallAsTheDocumentSays) {
  const TaskBytes bytes = example_bytes();
  ActivationLedger ledger(row_flow(example_packs()), bytes, 0);
  EXPECT_EQ(ledger.peak_of({StageId(0), Pass::kForward, PackId(0)}), Bytes(4384));
  ledger.run({StageId(0), Pass::kForward, PackId(0)});
  EXPECT_EQ(ledger.live(), Bytes(4000));
  EXPECT_EQ(ledger.peak_of({StageId(0), Pass::kForward, PackId(1)}), Bytes(6496));
  ledger.run({StageId(0), Pass::kForward, PackId(1)});
  EXPECT_EQ(ledger.live(), Bytes(6240));
  EXPECT_EQ(ledger.peak_of({StageId(0), Pass::kBackward, PackId(0)}), Bytes(9512));
  ledger.run({StageId(0), Pass::kBackward, PackId(0)});
  EXPECT_EQ(ledger.live(), Bytes(4640));
  EXPECT_EQ(ledger.peak_of({StageId(0), Pass::kBackward, PackId(1)}), Bytes(5960));
  ledger.run({StageId(0), Pass::kBackward, PackId(1)});
  EXPECT_EQ(ledger.live(), Bytes(0));
}

TEST(MemoryModel, TheHeadsBlockKeepsLogitsWithinBounds) {
  // 2^20 logits and 64 to 4,096 rows on a CPU, 2^28 and 2,048 to 4,096 on a GPU.
  const auto blocks = [&](std::int64_t vocabulary) {
    return std::pair(head_block(vocabulary, DeviceKind::kCpu).count(),
                     head_block(vocabulary, DeviceKind::kCuda).count());
  };
  EXPECT_EQ(blocks(10), std::pair(4096L, 4096L));
  EXPECT_EQ(blocks(1 << 10), std::pair(1024L, 4096L));
  EXPECT_EQ(blocks(100'000), std::pair(64L, 2684L));  // 2^28 / 100,000 = 2,684.4
  EXPECT_EQ(blocks(1 << 20), std::pair(64L, 2048L));
}

TEST(MemoryModel, RefusesBytesThatCannotBeCounted) {
  const PackPlan packs{{one_slice(0, 10)}, {one_slice(0, 10)}};
  const auto bytes_of = [&](std::int64_t length, double row_bytes) {
    Costs cost = cost_of(kExample, Dtype::kFp32);
    cost.row_bytes = row_bytes;
    return task_bytes(RecomputingCosts{cost}, {{0, 2}}, packs, {Tokens(length)})
        .rows.front()
        .front();
  };
  EXPECT_EQ(bytes_of(std::int64_t{1} << 31, 100), Bytes(10 * 2 * 100));
  for (const double row_bytes : {0.0, 1.0})
    expect_invalid_input([&] { (void)bytes_of(std::int64_t{1} << 60, row_bytes); },
                         {"cannot be counted", "fewer tokens"});
  expect_invalid_input([&] { (void)bytes_of(10, 1e300); }, {"1e+300 bytes", "correct the cost"});
}

RC_GTEST_PROP(MemoryModel, NoTermIsNegativeAndRowsAddUp, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepPlan plan = testing::random_plan(rng, 3);
  const PackPlan& packs = plan.replicas.front().packs;
  Decoder shape = testing::small_gqa();
  if (rng.below(2) == 0) shape.kinds[0].qk_norm = QkNorm::kNone;
  shape.set_layers(plan.layout.layer_begin.back());
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    const TaskBytes bytes = task_bytes(cost_of(shape, dtype), plan.layout, packs, plan.lengths);
    const std::int64_t tokens = total_tokens(plan.lengths).count();
    for (std::size_t s = 0; s < 3; ++s) {
      Bytes rows;
      for (const Bytes b : bytes.rows[s]) rows += b;
      const Bytes head = Bytes(s == 2 ? element_bytes(dtype) * shape.hidden_size() : 0);
      RC_ASSERT(rows == tokens * (2 * row_bytes(shape, dtype) + head));
      for (const auto& transients : {bytes.forward_transient[s], bytes.backward_transient[s]})
        for (const Bytes b : transients) RC_ASSERT(b > Bytes(0));
    }
  }
}

}  // namespace
}  // namespace slimpack
