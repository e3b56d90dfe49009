// Layers that hand on a state: what they cost from hardware figures, and what is kept of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "slimpack/cost/cost_model.h"
#include "tests/cost/round_model.h"
#include "tests/support/bound_costs.h"
#include "tests/support/counted_costs.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using testing::counted_costs;
using testing::slice;

const SequenceLengths kLengths{Tokens(10), Tokens(2)};
/// Backward begins at 3 and 7, forward at 6: the first forward slice has one cut inside, the second
/// one, too.
const PackPlan kCut{{{{slice(0, 0, 6)}}, {{slice(0, 6, 10), slice(1, 0, 2)}}},
                    {{{slice(0, 7, 10)}}, {{slice(0, 3, 7), slice(1, 0, 2)}}, {{slice(0, 0, 3)}}}};

std::vector<std::int64_t> counts(const auto& quantities) {
  std::vector<std::int64_t> out;
  for (const auto& q : quantities) out.push_back(q.count());
  return out;
}
using Counts = std::vector<std::int64_t>;

/// Layers of the first kind have no keys but a state of 1,000 bytes, whose gradient has 1,500.
Costs stateful(std::vector<std::uint8_t> kind_of_layer) {
  Costs cost = counted_costs(std::move(kind_of_layer));
  AutogradLayer& layer = cost.autograd->layers.front();
  layer.kv_bytes = 0;
  layer.state_bytes = 1000;
  layer.state_gradient_bytes = 1500;
  cost.kinds.front().forward.per_slice = 7;
  return cost;
}

Costs hardware_costs(const char* model) {
  const std::filesystem::path root(SLIMPACK_SOURCE_DIR);
  return cost_from_hardware(read_plannable_model(root / "models" / model).shape, Dtype::kBf16,
                            read_hardware(root / "hardware" / "h100.toml"));
}

TEST(StateMemory, HoldsAStateForEachBackwardSliceAndOneThatForwardHandsOn) {
  const auto cost = with_recompute(stateful({0, 1}), Recompute::kFull);
  const TaskBytes bytes = task_bytes(cost, {{0, 1, 2}}, kCut, kLengths);
  // Backward slices begin at 3 and 7; one more is handed on at 6. The other sequence is whole.
  EXPECT_EQ(counts(bytes.kv[0]), Counts({3000, 0}));
  EXPECT_EQ(counts(bytes.dkv[0]), Counts({1500, 0}));
  // Layers with a window of 3 keep keys of 8 bytes: 1 and 2, 4 and 5, and 6.
  EXPECT_EQ(counts(bytes.kv[1]), Counts({40, 0}));
}

TEST(StateMemory, OfCutsThatAreAlikeHoldsNoStateForForwardAlone) {
  const auto cost = with_recompute(stateful({0, 0}), Recompute::kFull);
  const PackPlan alike{{{{slice(0, 0, 6)}}, {{slice(0, 6, 10)}}},
                       {{{slice(0, 6, 10)}}, {{slice(0, 0, 6)}}}};
  const TaskBytes bytes = task_bytes(cost, {{0, 2}}, alike, {Tokens(10)});
  EXPECT_EQ(counts(bytes.kv[0]), Counts({2000}));
}

TEST(StateMemory, PeaksWithTheGradientsThatABackwardOpens) {
  const auto with = with_recompute(stateful({0}), Recompute::kFull);
  Costs other = stateful({0});
  other.autograd->layers.front().state_gradient_bytes = 0;
  const auto without = with_recompute(other, Recompute::kFull);
  const Counts peaks =
      counts(task_bytes(with, {{0, 1}}, kCut, kLengths).backward_transient.front());
  const Counts rest =
      counts(task_bytes(without, {{0, 1}}, kCut, kLengths).backward_transient.front());
  // The first backward slice of the sequence opens them; the others find them there.
  EXPECT_EQ(peaks, Counts({rest[0] + 1500, rest[1], rest[2]}));
}

TEST(StateTimes, OfForwardPayASliceForEachBackwardCutInside) {
  const TaskTimes times =
      task_times(with_recompute(stateful({0, 1, 1}), Recompute::kFull), {{0, 1, 3}}, kCut);
  // 10 ns a token; 7 for each slice, and for the cuts at 3 and 7.
  EXPECT_EQ(counts(times.forward[0]), Counts({60 + 7 + 7, 60 + 14 + 7}));
  // Backward runs its own slices: 30 a token.
  EXPECT_EQ(counts(times.backward[0]), Counts({90, 180, 90}));
}

TEST(StateTimes, OfTheLastLayerCountInWholeBecauseItRunsForItsState) {
  const TaskTimes times =
      task_times(with_recompute(stateful({0, 0}), Recompute::kFull), {{0, 1, 2}}, kCut);
  // The second MicroPack has a slice that a backward slice begins in: at 7.
  EXPECT_EQ(times.forward[1], times.forward[0]);
}

TEST(StateCosts, FromHardwareAreLinearInTokens) {
  const Costs cost = hardware_costs("qwen3-next-80b-a3b.json");
  ASSERT_EQ(cost.kinds.size(), 2U);  // states first, then attention
  for (const PackCost& time : {cost.kinds[0].forward, cost.kinds[0].backward}) {
    EXPECT_EQ(time.per_pair, 0);
    EXPECT_EQ(time.per_prefix_token, 0);
    EXPECT_GT(time.per_token, 0);
  }
  EXPECT_GT(cost.kinds[1].forward.per_pair, 0);
}

TEST(StateCosts, FromHardwareAreOfLayersUnderAutograd) {
  const Costs cost = hardware_costs("qwen3-next-80b-a3b.json");
  ASSERT_TRUE(cost.autograd.has_value());
  const AutogradLayer& delta = cost.autograd->layers[0];
  // 32 heads of 128 × 128 in fp32, and 4 inputs of 8,192 channels in bf16.
  EXPECT_EQ(delta.state_bytes, 32 * 128 * 128 * 4 + 4 * 8192 * 2);
  EXPECT_EQ(delta.state_gradient_bytes, (32 * 128 * 128 + 4 * 8192) * 4);
  EXPECT_EQ(delta.kv_bytes, 0);
  // Keys and values of 2 heads of 256 in bf16.
  EXPECT_EQ(cost.autograd->layers[1].kv_bytes, 2 * 2 * 256 * 2);
  EXPECT_FALSE(cost.autograd->layers[1].has_state());
  EXPECT_EQ(cost.shape.parameters(), 79'674'391'296);
}

TEST(StateCosts, AreReadAsTheyAreWritten) {
  for (const char* model : {"qwen3-next-80b-a3b.json", "nemotron-3-nano-30b-a3b.json"}) {
    const Costs cost = hardware_costs(model);
    EXPECT_EQ(cost_from_json(cost_to_json(cost), "cost.json"), cost) << model;
  }
}

TEST(StateCosts, KnowNoTensorParallelRanks) {
  const std::filesystem::path root(SLIMPACK_SOURCE_DIR);
  const Decoder shape = read_plannable_model(root / "models/qwen3-next-80b-a3b.json").shape;
  EXPECT_TRUE(shape.splits_into(1));
  EXPECT_FALSE(shape.splits_into(2));
  expect_invalid_input(
      [&] {
        (void)cost_from_hardware(shape, Dtype::kBf16, read_hardware(root / "hardware/h100.toml"),
                                 2);
      },
      {"tp is 2", "layers with states", "use 1"});
}

TEST(StateCosts, CountProductsWithStatesInAStepsFlops) {
  const Costs cost = hardware_costs("qwen3-next-80b-a3b.json");
  Costs none = cost;
  for (LayerShape& layer : none.shape.kinds) layer.state = {};
  // 36 layers, 32 heads, three products of 128 × 128; forward and twice that in backward.
  const double states = 36.0 * 32 * 3 * 2 * 128 * 128 * 3 * 1000;
  const SequenceLengths lengths{Tokens(1000)};
  EXPECT_DOUBLE_EQ((model_flops(cost, lengths) - model_flops(none, lengths)).count(), states);
}

/// Whether so many stages of at most this work hold the layers: each takes as many as it can.
bool fits(const std::vector<double>& work, const std::vector<double>& edges, double most) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < edges.size(); ++s) {
    const std::size_t begin = next, others = edges.size() - s - 1;
    double sum = edges[s];
    while (next + others < work.size() && sum + work[next] <= most) sum += work[next++];
    if (next == begin) return false;
  }
  return next == work.size();
}

TEST(BalancedStages, OfLayersThatDifferAreAsLightAsTheyCanBeAtTheseLengths) {
  const Costs cost = hardware_costs("qwen3.5-35b-a3b.json");
  std::vector<StageLayout> layouts;
  for (const Tokens length : {Tokens(2048), Tokens(131072)}) {
    const SequenceLengths lengths(8, length);
    const StageLayout layout = layouts.emplace_back(balanced_layout(cost, lengths, 8));
    const Slice whole{SequenceId(), Tokens(0), length};
    const auto tokens = static_cast<double>(8 * length.count());
    std::vector<double> work, edges(8, 0.0);
    for (const std::uint8_t kind : cost.shape.kind_of_layer)
      work.push_back(8 * (cost.kinds[kind].forward(whole) + cost.kinds[kind].backward(whole)));
    edges.front() =
        tokens * (cost.ends.embedding_forward.per_token + cost.ends.embedding_backward.per_token);
    edges.back() = tokens * cost.ends.head().per_token;
    double heaviest = 0;
    for (std::size_t s = 0; s < 8; ++s)
      heaviest =
          std::max(heaviest, std::accumulate(work.begin() + layout.layer_begin[s],
                                             work.begin() + layout.layer_begin[s + 1], edges[s]));
    EXPECT_TRUE(fits(work, edges, 1.0001 * heaviest));
    EXPECT_FALSE(fits(work, edges, 0.9999 * heaviest));
  }
  EXPECT_NE(layouts[0], layouts[1]);  // attention weighs more in long documents
}

}  // namespace
}  // namespace slimpack
