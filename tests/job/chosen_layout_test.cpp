#include "slimpack/job/configured_layouts.h"

#include <gtest/gtest.h>

#include "slimpack/job/configured_job.h"

namespace slimpack {
namespace {

/// Sixteen equal layers whose MicroPacks cost much: few, long MicroPacks are best, so a bubble is
/// dear.
Costs sixteen_layers() {
  Costs cost;
  cost.shape.set_layers(16);
  cost.shape.kinds = {{.hidden_size = 8,
                       .num_heads = 2,
                       .num_kv_heads = 2,
                       .head_dim = 4,
                       .value_dim = 4,
                       .dense_width = 16}};
  cost.shape.vocab_size = 10;
  cost.kinds.front().forward = {.per_pack = 1000, .per_token = 10};
  cost.kinds.front().backward = {.per_pack = 2000, .per_token = 20};
  return cost;
}

RunConfig config_of(std::int32_t pp) {
  RunConfig config;
  config.parallel.pp = pp;
  config.plan.unlimited_memory = true;
  config.plan.granularity = Tokens(16);
  return config;
}

const SequenceLengths kLengths(16, Tokens(64));

TEST(ChosenLayout, IsTheOneThatIsConfigured) {
  RunConfig config = config_of(4);
  config.parallel.stages_per_rank = 2;
  EXPECT_EQ(
      layouts_to_try(config, sixteen_layers(), kLengths),
      (std::vector{StageLayout{{0, 2, 4, 6, 8, 10, 12, 14, 16}, StagePlacement::looped(4, 2)}}));
}

TEST(ChosenLayout, GivesPlannersThatRunOneStageARankOne) {
  RunConfig config = config_of(2);
  config.parallel.chooses_stages = true;
  config.plan.planner = PlannerKind::kContextParallel;
  const Costs cost = sixteen_layers();
  const StageLayout layout =
      chosen_layout(config, cost, kLengths, configured_choices(config, cost));
  EXPECT_EQ(layout.placement.stages_per_rank(), 1);
}

TEST(ChosenLayout, TriesAsManyStagesAsThereAreLayers) {
  const auto tried = [](std::int32_t pp) {
    RunConfig config = config_of(pp);
    config.parallel.chooses_stages = true;
    std::vector<std::int32_t> counts;
    for (const StageLayout& layout : layouts_to_try(config, sixteen_layers(), kLengths)) {
      EXPECT_EQ(layout.ranks(), pp);
      counts.push_back(layout.placement.stages_per_rank());
    }
    return counts;
  };
  EXPECT_EQ(tried(1), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(tried(2), (std::vector<std::int32_t>{1, 2, 4, 8}));
  EXPECT_EQ(tried(4), (std::vector<std::int32_t>{1, 2, 4}));
  EXPECT_EQ(tried(16), (std::vector<std::int32_t>{1}));
}

TEST(ChosenLayout, TriesTheVocabularyOnTheEndsAndSpread) {
  const auto tried = [](std::int32_t pp) {
    RunConfig config = config_of(pp);
    config.parallel.chooses_vocabulary = true;
    std::vector<bool> spread;
    for (const StageLayout& layout : layouts_to_try(config, sixteen_layers(), kLengths))
      spread.push_back(layout.spread_vocabulary);
    return spread;
  };
  EXPECT_EQ(tried(1), (std::vector<bool>{false}));
  EXPECT_EQ(tried(4), (std::vector<bool>{false, true}));
}

TEST(ChosenLayout, SpreadsManyWordsOverTheRanks) {
  RunConfig config = config_of(4);
  config.parallel.chooses_vocabulary = true;
  Costs cost = sixteen_layers();
  const Choices choices = configured_choices(config, cost);
  // The head takes as long as eight layers forward and backward.
  cost.ends.head_backward.per_token =
      8 * (cost.kinds.front().forward.per_token + cost.kinds.front().backward.per_token);
  EXPECT_TRUE(chosen_layout(config, cost, kLengths, choices).spread_vocabulary);
}

TEST(ChosenLayout, TakesTheShortestStep) {
  RunConfig config = config_of(4);
  config.parallel.chooses_stages = true;
  const Costs cost = sixteen_layers();
  const Choices choices = configured_choices(config, cost);
  const auto makespan = [&](const StageLayout& layout) {
    return plan_step({configured_job(config, cost, layout), kLengths, choices, cost})
        .step->prediction.makespan;
  };
  const StageLayout chosen = chosen_layout(config, cost, kLengths, choices);
  EXPECT_GT(chosen.placement.stages_per_rank(), 1);
  for (const StageLayout& layout : layouts_to_try(config, cost, kLengths))
    EXPECT_LE(makespan(chosen), makespan(layout));
}

}  // namespace
}  // namespace slimpack
