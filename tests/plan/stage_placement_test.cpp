#include "slimpack/plan/stage_placement.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slimpack/plan/plan_json.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

std::vector<StageId> stages(std::initializer_list<std::int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(StagePlacement, HasStageSOnRankSUnlessATableSaysMore) {
  const StagePlacement placement;
  EXPECT_EQ(placement.stages_per_rank(), 1);
  EXPECT_EQ(placement.rank_of(StageId(7)), 7);
  EXPECT_EQ(placement.local_stage(StageId(7)), 0);
  EXPECT_EQ(placement.stages_of(3), stages({3}));
  EXPECT_EQ(StagePlacement::looped(3, 1), placement);
  EXPECT_EQ(StagePlacement({0, 1, 2, 3}), placement);
}

TEST(StagePlacement, LoopsOverTheRanks) {
  const StagePlacement placement = StagePlacement::looped(2, 3);
  EXPECT_EQ(placement.rank_of_stage(), (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(placement.stages_of(1), stages({1, 3, 5}));
  EXPECT_EQ(placement.local_stage(StageId(4)), 2);
  EXPECT_EQ(placement.stage(1, 2), StageId(5));
}

TEST(StagePlacement, TakesAnyTableOfEquallyManyStages) {
  const StagePlacement vee({0, 1, 2, 2, 1, 0});
  EXPECT_EQ(vee.stages_per_rank(), 2);
  EXPECT_EQ(vee.stages_of(0), stages({0, 5}));
  EXPECT_EQ(vee.stages_of(2), stages({2, 3}));
  EXPECT_EQ(vee.local_stage(StageId(4)), 1);
  EXPECT_EQ(vee.rank_of(StageId(4)), 1);
  EXPECT_NE(vee, StagePlacement::looped(3, 2));
  EXPECT_EQ(vee, StagePlacement::of(PlacementStyle::kV, 3, 2));
  EXPECT_EQ(StagePlacement::of(PlacementStyle::kLoop, 3, 2), StagePlacement::looped(3, 2));
  EXPECT_TRUE(vee.turns_back());
  EXPECT_FALSE(StagePlacement::looped(3, 2).turns_back());
  EXPECT_FALSE(StagePlacement().turns_back());
}

StageLayout read(const nlohmann::json& layout) {
  return stage_layout_from_json(JsonFields(layout, "layout.json"));
}

TEST(StageLayoutJson, ReadsWhatItWrites) {
  for (const StagePlacement& placement :
       {StagePlacement(), StagePlacement::looped(2, 2), StagePlacement({0, 1, 1, 0})}) {
    const StageLayout layout{{0, 1, 3, 4, 6}, placement, placement == StagePlacement()};
    EXPECT_EQ(read(stage_layout_to_json(layout)), layout);
  }
}

TEST(StageLayoutJson, NeedsNoTableWhereStagesLoop) {
  const StageLayout looped{{0, 1, 2, 3, 4}, StagePlacement::looped(2, 2)};
  EXPECT_EQ(stage_layout_to_json(looped).dump(),
            R"({"layer_begin":[0,1,2,3,4],"spread_vocabulary":false,"stages_per_rank":2})");
}

TEST(StageLayoutJson, RefusesPlacementsThatLeaveRanksUnequal) {
  const auto refuses = [](const char* text, const char* words) {
    expect_invalid_input([&] { (void)read(nlohmann::json::parse(text)); }, {"layout.json", words});
  };
  refuses(R"({"layer_begin":[0,1,2],"stages_per_rank":3})",
          "2 stages cannot sit on ranks of 3 stages each");
  refuses(R"({"layer_begin":[0,1,2],"stages_per_rank":0})", "stages_per_rank");
  refuses(R"({"layer_begin":[0,1,2],"rank_of_stage":[0,1,2]})", "3 entries for 2 stages");
  refuses(R"({"layer_begin":[0,1,2],"rank_of_stage":[1,7]})", "gives rank 0 0 stages");
  refuses(R"({"layer_begin":[0,1,2,3,4],"stages_per_rank":2,"rank_of_stage":[0,0,0,1]})",
          "gives rank 0 3 stages, stages_per_rank is 2");
  refuses(R"({"layer_begin":[0,1,2],"rank_of_stage":[0,-1]})", "rank_of_stage");
}

}  // namespace
}  // namespace slimpack
