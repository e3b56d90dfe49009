// DynaPipe's own simulator, run on the packs of three packers, gives the bubble and the memory of
// its wait-free cyclic schedule and of 1F1B. The schedule is rebuilt here and rated by our
// simulator. The setting of those runs: the first 512 lengths of dist_wlbllm.json clipped at
// 65,536, packs of as many tokens; 4 stages of 8 layers, h = 4096, causal FLOPs at 400 TFLOP/s,
// backward twice forward, no communication, 34·h bytes a token and layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"
#include "slimpack/data/lengths.h"
#include "slimpack/planner/replica_tasks.h"

namespace slimpack {
namespace {

constexpr std::int32_t kStages = 4;
constexpr Tokens kContext{65'536};

Costs published_cost() {
  Costs cost;
  cost.shape.kinds[0].hidden_size = 4096;
  cost.shape.set_layers(32);
  constexpr double kH = 4096;
  constexpr double kFlopsPerNano = 400e3;
  cost.row_bytes = 34 * kH;
  cost.kinds.front().forward.per_token = 24 * kH * kH / kFlopsPerNano;
  cost.kinds.front().forward.per_pair = 4 * kH / kFlopsPerNano;
  cost.kinds.front().backward = 2.0 * cost.kinds.front().forward;
  return cost;
}

SequenceLengths lengths_of_the_runs() {
  SequenceLengths lengths =
      read_lengths(std::filesystem::path(SLIMPACK_SOURCE_DIR) / "bench/data/wlbllm_lengths.txt");
  lengths.resize(512);
  for (Tokens& length : lengths) length = std::min(length, kContext);
  return lengths;
}

/// Figures of the worst stage.
struct Figures {
  double bubble = 0;
  double gigabytes = 0;
};

Figures simulated(const SequenceLengths& lengths, const SequencePacks& packs, bool cyclic) {
  const Costs cost = published_cost();
  const StageLayout layout{{0, 8, 16, 24, 32}};
  RatedPlan step;
  step.plan = whole_step({stage_table(cost, layout), kContext, lengths}, {packs});
  step.plan.recompute = RecomputeByLayer(32, Recompute::kElementwise);
  const PackPlan& own = step.plan.replicas.front().packs;
  const std::vector<std::int64_t> weights(own.forward.size(), 1);
  step.schedules = {
      cyclic ? wait_free_cyclic(weights, kStages, std::numeric_limits<std::int64_t>::max())
             : one_f_one_b(own, kStages)};
  const SimulationResult result = predict(step, cost, {kChannelSlots, false});
  Figures figures;
  for (const Nanos busy : result.busy)
    figures.bubble = std::max(figures.bubble, 1 - to_seconds(busy) / to_seconds(result.makespan));
  figures.gigabytes = static_cast<double>(step_need(step, cost).bytes.count()) / 1e9;
  return figures;
}

/// verl's 32 micro-batches: Karmarkar–Karp on 24,576·s + s², small ones at both ends.
SequencePacks balanced_packs(const SequenceLengths& lengths) {
  std::vector<std::int64_t> weights;
  for (const Tokens length : lengths) weights.push_back(length.count() * (24'576 + length.count()));
  const auto parts = karmarkar_karp(weights, 32);
  std::vector<std::int64_t> sums;
  for (const auto& part : parts) {
    sums.push_back(0);
    for (const std::size_t i : part) sums.back() += weights[i];
  }
  SequencePacks packs;
  for (const std::size_t k : ordered_items(sums, PackOrder::kLightAtBothEnds)) {
    packs.emplace_back();
    for (const std::size_t i : parts[k]) packs.back().emplace_back(i);
  }
  return packs;
}

/// Bubbles are published in tenths of a percent, memory in whole gigabytes.
void expect_near(const Figures& found, const Figures& published) {
  EXPECT_NEAR(found.bubble, published.bubble, 0.001);
  EXPECT_NEAR(found.gigabytes, published.gigabytes, 1);
}

TEST(DynaPipePublished, BubbleAndMemoryAreThoseOfItsOwnSimulator) {
  const SequenceLengths lengths = lengths_of_the_runs();
  const StageLayout layout{{0, 8, 16, 24, 32}};
  const BaselineInput input{stage_table(published_cost(), layout), kContext, lengths};
  const SequencePacks first_fit = first_fit_packs(input);
  const SequencePacks concatenated = concatenated_packs(input);
  const SequencePacks balanced = balanced_packs(lengths);
  EXPECT_EQ(first_fit.size(), 28u);
  EXPECT_EQ(concatenated.size(), 30u);
  expect_near(simulated(lengths, first_fit, false), {0.162, 292});
  expect_near(simulated(lengths, first_fit, true), {0.117, 511});
  expect_near(simulated(lengths, concatenated, false), {0.247, 288});
  expect_near(simulated(lengths, concatenated, true), {0.107, 498});
  expect_near(simulated(lengths, balanced, false), {0.182, 261});
  expect_near(simulated(lengths, balanced, true), {0.097, 455});
}

}  // namespace
}  // namespace slimpack
