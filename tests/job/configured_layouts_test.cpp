#include "slimpack/job/configured_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "slimpack/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// 8 layers with 12 heads.
Decoder shape() {
  Decoder model;
  model.kinds = {{.hidden_size = 192,
                  .num_heads = 12,
                  .num_kv_heads = 12,
                  .head_dim = 16,
                  .value_dim = 16,
                  .dense_width = 256}};
  model.set_layers(8);
  model.vocab_size = 100;
  model.max_positions = Tokens(4096);
  return model;
}

Costs costs() {
  return cost_from_hardware(shape(), Dtype::kBf16, HardwareSpec{});
}

RunConfig on_nodes_of(std::int32_t ranks) {
  RunConfig config;
  config.hardware.emplace();
  config.hardware->ranks_per_node = ranks;
  return config;
}

TEST(Layouts, AreAllThatNodeHeadsAndLayersAllow) {
  // tp of 1, 2 and 4 divides 8 ranks of a node and 12 heads; 8 does not divide the heads. With 48
  // ranks, pp × dp is 48 / tp with at most 8 stages: 1, 2, 3, 4, 6, 8 for tp 1 (48) and tp 2 (24);
  // 1, 2, 3, 4, 6 for tp 4 (12).
  const std::vector<ParallelGrid> layouts = layouts_of(48, on_nodes_of(8), shape(), {});
  EXPECT_EQ(layouts.size(), 6u + 6u + 5u);
  for (const ParallelGrid& grid : layouts) EXPECT_EQ(grid.ranks(), 48);
  EXPECT_EQ(std::ranges::count(layouts, 4, &ParallelGrid::tp), 5);
}

TEST(Layouts, HaveTheTpThatCostsWereMeasuredWith) {
  RunConfig config;
  config.parallel.tp = 2;
  config.cost.file = "measured.json";
  for (const ParallelGrid& grid : layouts_of(8, config, shape(), {})) EXPECT_EQ(grid.tp, 2);
  // Files for 1 and 4 win over that.
  const auto layouts = layouts_of(8, config, shape(), {{1, "one.json"}, {4, "four.json"}});
  EXPECT_EQ(layouts.size(), 4u + 2u);  // pp 1, 2, 4 and 8; pp 1 and 2
}

TEST(Layouts, RefuseNumbersOfRanksThatHaveNone) {
  expect_invalid_input([] { (void)layouts_of(0, on_nodes_of(8), shape(), {}); }, {"--ranks is 0"});
  expect_invalid_input([] { (void)layouts_of(-4, on_nodes_of(8), shape(), {}); },
                       {"--ranks is -4"});
  expect_invalid_input(
      [] {
        (void)layouts_of(7, {}, shape(), {{2, "two.json"}});
      },
      {"7 ranks have no layout"});
}

TEST(UsualLayouts, AreTensorParallelAsWideAsANodeOrReplicasAlone) {
  const std::vector<ParallelGrid> usual =
      usual_layouts(layouts_of(48, on_nodes_of(8), shape(), {}));
  EXPECT_EQ(usual, (std::vector<ParallelGrid>{{.pp = 1, .dp = 48, .tp = 1},
                                              {.pp = 1, .dp = 12, .tp = 4},
                                              {.pp = 4, .dp = 3, .tp = 4}}));
}

TEST(SmallChanges, LeaveTheRanksAsTheyAre) {
  const RunConfig config = on_nodes_of(8);
  const ParallelGrid grid{.pp = 4, .dp = 2, .tp = 1};
  const std::vector<ParallelGrid> changes = small_changes(grid, config, costs());
  // zero 2 and 3, a spread vocabulary, two stages a rank with and without it; four are 16 stages of
  // 8 layers.
  ASSERT_EQ(changes.size(), 5u);
  for (const ParallelGrid& changed : changes) {
    EXPECT_TRUE(changed.same_ranks(grid));
    EXPECT_NE(changed, grid);
  }
  EXPECT_EQ(std::ranges::count(changes, 2, &ParallelGrid::stages_per_rank), 2);
  EXPECT_EQ(std::ranges::count(changes, true, &ParallelGrid::spread_vocabulary), 2);
}

TEST(SmallChanges, AreThoseThatTheRunLeavesOpen) {
  RunConfig config = on_nodes_of(8);
  // One stage has no vocabulary to spread, one replica nothing to share out.
  EXPECT_EQ(small_changes({.pp = 1, .dp = 8, .tp = 1}, config, costs()).size(), 2u);
  EXPECT_TRUE(small_changes({.pp = 1, .dp = 1, .tp = 4}, config, costs()).empty());
  config.parallel.zero = 3;
  EXPECT_TRUE(small_changes({.pp = 1, .dp = 8, .tp = 1, .zero = 3}, config, costs()).empty());
  for (const ParallelGrid& grid : layouts_of(8, config, shape(), {})) EXPECT_EQ(grid.zero, 3);
  config.plan.planner = PlannerKind::kPacked;  // its ranks have one stage
  for (const ParallelGrid& changed : small_changes({.pp = 4, .dp = 2, .tp = 1}, config, costs()))
    EXPECT_EQ(changed.stages_per_rank, 1);
}

TEST(SmallChanges, AreThoseThatTheRuntimeCanDo) {
  Costs own = costs();
  own.autograd.emplace();
  // Layers under autograd have no spread vocabulary, and no zero of 2: zero 3, two stages a rank.
  EXPECT_EQ(small_changes({.pp = 4, .dp = 2, .tp = 1}, on_nodes_of(8), own),
            (std::vector<ParallelGrid>{{.pp = 4, .dp = 2, .tp = 1, .zero = 3},
                                       {.pp = 4, .dp = 2, .tp = 1, .stages_per_rank = 2}}));
}

TEST(SmallChanges, ChangeNothingTwice) {
  const RunConfig config = on_nodes_of(8);
  // Left are two of zero, a spread vocabulary, and two stages a rank both ways.
  EXPECT_EQ(small_changes({.pp = 4, .dp = 2, .zero = 3}, config, costs()).size(), 3u);
  EXPECT_EQ(small_changes({.pp = 4, .dp = 2, .spread_vocabulary = true}, config, costs()).size(),
            4u);
  EXPECT_EQ(small_changes({.pp = 4, .dp = 2, .stages_per_rank = 2, .spread_vocabulary = true},
                          config, costs())
                .size(),
            2u);
}

TEST(CostFiles, AreOneForEachTp) {
  const TempFolder folder;
  const auto file = [&](const char* name, std::int32_t tp) {
    const std::filesystem::path path = folder.path() / name;
    write_file(path, cost_to_json(cost_from_hardware(shape(), Dtype::kFp32, HardwareSpec{}, tp)));
    return path;
  };
  const auto one = file("one.json", 1), two = file("two.json", 2), again = file("again.json", 2);
  EXPECT_EQ(cost_files({two, one}), (CostFiles{{1, one}, {2, two}}));
  expect_invalid_input(
      [&] {
        (void)cost_files({two, again});
      },
      {"two.json", "again.json", "tp 2", "one file for each tp"});
}

}  // namespace
}  // namespace slimpack
