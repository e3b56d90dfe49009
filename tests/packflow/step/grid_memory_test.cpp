// The memory model against the runtime on grids of ranks: tensor-parallel stages, replicas, and
// replicas that run merged MicroPacks.
#include <gtest/gtest.h>

#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/schedule/ticks.h"
#include "tests/packflow/step/memory_check.h"
#include "tests/packflow/support/small_runs.h"
#include "tests/support/bound_costs.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"

namespace slimpack {
namespace {

using slimpack::testing::Bounds;
using slimpack::testing::compare;
using slimpack::testing::GridStep;
using slimpack::testing::Ratios;

constexpr Bounds kTwoPercent{0.98, 1.02};
constexpr Bytes kLeast(std::int64_t{2} << 20);

/// The widest part of the model decides which moment holds most.
enum class Widest : std::uint8_t { kAttention, kStates, kVocabulary };

Decoder grid_shape(std::int64_t layers, bool qk_norm, Widest widest = Widest::kAttention) {
  Decoder shape;
  shape.family = qk_norm ? ModelFamily::kQwen3 : ModelFamily::kLlama;
  const std::int64_t head_dim = widest == Widest::kAttention ? 16 : 8;
  shape.kinds = {{.hidden_size = widest == Widest::kStates ? 256 : 64,
                  .num_heads = 8,
                  .num_kv_heads = 2,
                  .head_dim = head_dim,
                  .value_dim = head_dim,
                  .qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone,
                  .dense_width = widest == Widest::kAttention ? 192 : 64}};
  shape.set_layers(layers);
  shape.vocab_size = widest == Widest::kVocabulary ? 4000 : 512;
  shape.max_positions = Tokens(8192);
  return shape;
}

struct Grid {
  std::int32_t pp = 1, dp = 1, tp = 1;
  std::int32_t merged = 1;  ///< replicas that run the long documents together
  Widest widest = Widest::kAttention;
  std::int32_t split_from = std::numeric_limits<std::int32_t>::max();
  std::int32_t stages_per_rank = 1;
  bool spread_vocabulary = false;
  bool exchange_context = false;
  std::int64_t window = 0;

  [[nodiscard]] std::string text() const {
    return fmt::format(
        "pp {} × {}, dp {}, tp {}, merged over {}, widest {}, split from {}{}{}, window {}", pp,
        stages_per_rank, dp, tp, merged, static_cast<int>(widest), split_from,
        spread_vocabulary ? ", spread" : "", exchange_context ? ", exchange" : "", window);
  }
};

/// Documents of a step: long ones, which may be merged, then some of each replica.
struct Documents {
  SequenceLengths lengths;
  std::vector<SequenceId> merged;
  std::vector<std::vector<SequenceId>> own;  ///< by replica
};

Documents documents(const Grid& grid, Rng& rng) {
  Documents out;
  out.own.resize(static_cast<std::size_t>(grid.dp));
  if (grid.merged > 1)
    for (const std::int64_t length : {1400, 500}) {
      out.merged.emplace_back(out.lengths.size());
      out.lengths.emplace_back(length);
    }
  for (auto& own : out.own)
    for (const std::int64_t length : {grid.dp == 1 ? 900 : 400, 150}) {
      own.emplace_back(out.lengths.size());
      out.lengths.emplace_back(length + static_cast<std::int64_t>(rng.below(50)));
    }
  return out;
}

/// The merged documents in four MicroPacks of both, cut evenly and elsewhere in either pass.
std::vector<MicroPack> merged_packs(const Documents& documents, std::int32_t replicas, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  constexpr std::int64_t kPacks = 4;
  std::vector<MicroPack> packs(kPacks);
  for (const SequenceId q : documents.merged) {
    const std::int64_t length = documents.lengths[q.index()].count();
    const auto cut = [&](std::int64_t k) {
      if (k == 0 || k == kPacks) return Tokens(length * k / kPacks);
      return Tokens(length * k / kPacks + (backward ? 16 : 0));
    };
    for (std::int64_t k = 0; k < kPacks; ++k)
      packs[static_cast<std::size_t>(backward ? kPacks - 1 - k : k)].slices.push_back(
          {q, cut(k), cut(k + 1)});
  }
  for (MicroPack& pack : packs) pack.replicas = replicas;
  return packs;
}

/// Cuts the documents and lists the schedules of all replicas together.
GridStep step_on(const Grid& grid, const Decoder& shape, Dtype dtype, RecomputeByLayer recompute,
                 Rng& rng) {
  const Documents docs = documents(grid, rng);
  GridStep step;
  step.cost = cost_from_hardware(shape, dtype, HardwareSpec{}, grid.tp, grid.dp);
  step.plan.lengths = docs.lengths;
  step.plan.layout = balanced_layout(step.cost, docs.lengths, grid.pp, grid.stages_per_rank,
                                     grid.spread_vocabulary);
  step.plan.recompute = std::move(recompute);
  const RecomputingCosts cost = with_recompute(step.cost, step.plan.recompute);
  std::vector<TaskTimes> times;
  std::vector<TaskBytes> bytes;
  for (const auto& own : docs.own) {
    ReplicaPlan& replica = step.plan.replicas.emplace_back();
    replica.sequences = docs.merged;
    replica.sequences.insert(replica.sequences.end(), own.begin(), own.end());
    const auto time = [&](Pass pass) {
      return stage_cost(RecomputingCosts{step.cost}, step.plan.layout, StageId(0), pass);
    };
    replica.packs = fluid_cut(docs.lengths, fluid_order(docs.lengths, own, 1), time(Pass::kForward),
                              time(Pass::kBackward), {.packs = 5, .granularity = Tokens(32)});
    for (const Pass pass : kWholePasses) {
      if (docs.merged.empty()) continue;
      auto& packs = replica.packs.of(pass);
      const std::vector<MicroPack> merged = merged_packs(docs, grid.merged, pass);
      packs.insert(packs.begin(), merged.begin(), merged.end());
    }
    times.push_back(task_times(cost, step.plan.layout, replica.packs));
    bytes.push_back(task_bytes(cost, step.plan.layout, replica.packs, docs.lengths));
  }
  std::vector<ReplicaPacks> replicas;
  for (std::size_t r = 0; r < docs.own.size(); ++r)
    replicas.push_back({step.plan.replicas[r].packs, times[r], bytes[r]});
  const Schedule common = ListScheduler(replicas, kChannelSlots, grid.stages_per_rank)
                              .run({}, {.split_from = grid.split_from})
                              ->schedule;
  for (const ReplicaPlan& replica : step.plan.replicas)
    step.schedules.push_back(own_order(common, replica.packs));
  step.schedules = with_vocabulary(step.plan, std::move(step.schedules));
  if (!grid.exchange_context) return step;
  const auto exchanges = context_exchanges(step.plan, step.schedules);
  for (std::size_t r = 0; r < exchanges.size(); ++r) step.schedules[r].exchanges = exchanges[r];
  return step;
}

/// Every policy everywhere and a mixture, on two layers a stage, in fp32 and fp64. Each is with q/k
/// norms in one of the two.
void compare_on(const std::vector<Grid>& grids, const std::string& what,
                const Bounds& bounds = kTwoPercent) {
  Ratios ratios;
  Rng rng(7);
  const std::vector<Recompute> each = testing::recomputations_of_cpu();
  for (const Grid& grid : grids)
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kFp64})
      for (std::size_t policy = 0; policy <= each.size(); ++policy) {
        const bool qk_norm = (policy + (dtype == Dtype::kFp32 ? 0 : 1)) % 2 == 1;
        const std::int64_t layers = 2 * grid.pp * grid.stages_per_rank;
        RecomputeByLayer recompute;
        for (std::int64_t l = 0; l < layers; ++l)
          recompute.push_back(each[policy < each.size() ? policy : rng.below(each.size())]);
        const std::string name =
            fmt::format("{}, {}{}, {}", grid.text(),
                        policy < each.size() ? to_string(recompute.front()) : "mixed",
                        qk_norm ? ", qk_norm" : "", to_string(dtype));
        Decoder shape = grid_shape(layers, qk_norm, grid.widest);
        shape.kinds.front().window = grid.window;
        compare(step_on(grid, shape, dtype, recompute, rng), name, kLeast, bounds, ratios);
      }
  ratios.print(what);
}

TEST(GridMemory, OfTensorParallelRanksIsWithinTwoPercent) {
  compare_on({{.tp = 2},
              {.pp = 2, .tp = 2},
              {.tp = 4},
              {.tp = 2, .widest = Widest::kStates},
              {.tp = 4, .widest = Widest::kStates},
              {.pp = 2, .tp = 2, .widest = Widest::kVocabulary}},
             "tensor-parallel");
}

TEST(GridMemory, OfRanksWithSeveralStagesIsWithinTwoPercent) {
  compare_on({{.pp = 2, .stages_per_rank = 2},
              {.pp = 3, .split_from = 1, .stages_per_rank = 2},
              {.pp = 2, .dp = 2, .tp = 2, .merged = 2, .stages_per_rank = 3}},
             "several stages a rank");
}

TEST(GridMemory, OfRanksThatShareTheVocabularyIsWithinTwoPercent) {
  compare_on({{.pp = 2, .widest = Widest::kVocabulary, .spread_vocabulary = true},
              {.pp = 2, .dp = 2, .tp = 2, .merged = 2, .spread_vocabulary = true}},
             "spread vocabulary");
}

// The rows that come back to a giver count from the start of its attention, but may come at its
// end: on two layers a stage that is up to 5% of a peak.
TEST(GridMemory, OfRanksThatExchangeAttentionIsAnUpperBound) {
  compare_on({{.pp = 2, .exchange_context = true},
              {.pp = 4, .exchange_context = true},
              {.pp = 2, .tp = 2, .stages_per_rank = 2, .exchange_context = true},
              {.pp = 2, .dp = 2, .merged = 2, .spread_vocabulary = true, .exchange_context = true}},
             "exchange", {kTwoPercent.lowest, 1.06});
}

TEST(GridMemory, OfReplicasIsWithinTwoPercent) {
  compare_on({{.dp = 2}, {.pp = 2, .dp = 2}}, "replicas");
}

TEST(GridMemory, OfMergedMicroPacksIsWithinTwoPercent) {
  compare_on({{.dp = 2, .merged = 2},
              {.pp = 2, .dp = 2, .merged = 2},
              {.dp = 4, .merged = 4},
              {.dp = 2, .tp = 2, .merged = 2}},
             "merged");
}

TEST(GridMemory, OfMergedMicroPacksWithinWindowsIsWithinTwoPercent) {
  compare_on({{.dp = 2, .merged = 2, .window = 200},
              {.dp = 4, .merged = 4, .window = 3},
              {.dp = 2, .tp = 2, .merged = 2, .window = 2000}},
             "merged windows");
}

TEST(GridMemory, OfSplitBackwardsIsWithinTwoPercent) {
  compare_on({{.tp = 2, .split_from = 0},
              {.tp = 2, .widest = Widest::kStates, .split_from = 0},
              {.tp = 4, .widest = Widest::kStates, .split_from = 2},
              {.pp = 2, .tp = 2, .split_from = 3},
              {.dp = 2, .split_from = 0},
              {.dp = 2, .merged = 2, .split_from = 0},
              {.dp = 4, .merged = 4, .split_from = 2}},
             "split");
}

/// Documents on one replica or shared by several, cut anywhere, split anywhere.
GridStep random_grid_step(std::uint64_t seed, testing::Zoning zoning) {
  Rng rng(seed);
  const int stages = 1 + static_cast<int>(rng.below(2));
  SequenceLengths lengths;
  for (int i = 0; i < 5; ++i) lengths.emplace_back(200 + static_cast<std::int64_t>(rng.below(600)));
  GridStep step;
  step.plan = testing::random_step(rng, lengths, 1 + rng.below(4), stages,
                                   testing::MergedAt::kAnywhere, zoning);
  step.schedules = testing::RandomOrders(rng, step.plan, kChannelSlots).draw();
  if (rng.below(2) == 0) testing::split_some(rng, step.plan, step.schedules);
  const bool fp32 = rng.below(2) == 0;
  step.cost =
      cost_from_hardware(grid_shape(2 * stages, rng.below(2) == 0),
                         fp32 ? Dtype::kFp32 : Dtype::kFp64, HardwareSpec{}, 1 << rng.below(2), 4);
  const std::vector<Recompute> each = testing::recomputations_of_cpu();
  for (std::int64_t l = 0; l < 2 * stages; ++l)
    step.plan.recompute.push_back(each[rng.below(each.size())]);
  return step;
}

TEST(GridMemory, OfRandomStepsIsWithinTwoPercent) {
  Ratios ratios;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    const GridStep step = random_grid_step(seed, testing::Zoning::kWhole);
    compare(step, fmt::format("seed {}, tp {}", seed, step.cost.tp), kLeast, kTwoPercent, ratios);
  }
  ratios.print("random steps");
}

TEST(GridMemory, OfZonesIsAtMostWhatIsPredicted) {
  // The bytes that zones hold while they take turns count together (memory_model.h).
  constexpr Bounds kUpperBound{0.98, 1.2};
  Ratios ratios;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const GridStep step = random_grid_step(seed, testing::Zoning::kZones);
    compare(step, fmt::format("seed {}, tp {}", seed, step.cost.tp), kLeast, kUpperBound, ratios);
  }
  ratios.print("zones");
}

TEST(GridMemory, OfRingsAndGatheredKeysIsAtMostWhatIsPredicted) {
  constexpr Bounds kUpperBound{0.98, 1.2};
  for (const CpCommType type : {CpCommType::kP2P, CpCommType::kAllGather}) {
    Ratios ratios;
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
      GridStep step = random_grid_step(seed, testing::Zoning::kZones);
      step.cost.cp_comm_type = type;
      compare(step, fmt::format("{}, seed {}, tp {}", to_string(type), seed, step.cost.tp), kLeast,
              kUpperBound, ratios);
    }
    ratios.print(std::string(to_string(type)));
  }
}

TEST(GridMemory, OfAnEnginesThreadsIsWithinTwoPercent) {
  // On one stage no inputs wait: whatever the machine is doing, threads hold what is predicted.
  Ratios ratios;
  Rng rng(5);
  for (const Grid& grid : {Grid{.tp = 2}, Grid{.dp = 2}, Grid{.dp = 2, .tp = 2, .merged = 2}}) {
    const GridStep step = step_on(grid, grid_shape(2, false), Dtype::kFp32, {}, rng);
    EngineOptions options;
    options.shape = step.cost.shape;
    options.layout = step.plan.layout;
    options.replicas = grid.dp;
    options.tensor = grid.tp;
    options.context = *std::ranges::max_element(step.plan.lengths);
    Engine engine(options);
    const StepTokens tokens = testing::random_tokens(rng, step.cost.shape, step.plan.lengths);
    const StepResult measured =
        engine.run(step.plan, lower(step.plan, step.schedules), tokens, std::nullopt);
    testing::expect_ratios(step.predict(), measured.timeline.peak_activation, step.cost.tp,
                           grid.text(), kLeast, kTwoPercent, ratios);
  }
  ratios.print("engine");
}

}  // namespace
}  // namespace slimpack
