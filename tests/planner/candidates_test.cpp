#include "slimpack/planner/candidates.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

TEST(Candidates, GranulesRoundUpEachSequence) {
  // 1 + 1 + 2 pieces of at most 128.
  EXPECT_EQ(total_granules({Tokens(1), Tokens(128), Tokens(129)}, Tokens(128)), 4);
}

TEST(Candidates, NeverAskForMorePacksThanThereArePieces) {
  const CandidateSpace space{.stages = 4, .granules = 3, .sequences = 1};
  for (const Candidate& c : coarse_candidates(space)) {
    EXPECT_LE(c.cut.fluid.packs, 3);
    EXPECT_EQ(c.cut.short_first, 0);
    for (const SearchDirection direction : kSearchDirections)
      for (const Candidate& n : neighbours(c, space, direction)) {
        EXPECT_GE(n.cut.fluid.packs, 1);
        EXPECT_LE(n.cut.fluid.packs, 3);
        EXPECT_EQ(n.cut.short_first, 0);
      }
  }
}

TEST(Candidates, DoubleFromOnePackPerStageToTheMost) {
  const CandidateSpace space{
      .stages = 4, .granules = 1 << 20, .sequences = 1000, .longest = 1 << 19};
  const auto candidates = coarse_candidates(space);
  EXPECT_EQ(candidates.front().cut.fluid.packs, 4);
  EXPECT_EQ(candidates.back().cut.fluid.packs, 4 * 256);  // 256 a stage
  for (std::size_t i = 1; i < candidates.size(); ++i)
    EXPECT_EQ(candidates[i].cut.fluid.packs, 2 * candidates[i - 1].cut.fluid.packs);
}

TEST(Candidates, HaveTheNumberThatIsAskedForBeyondAllLimits) {
  CandidateSpace space{.stages = 4, .granules = 5000, .sequences = 1000, .longest = 10};
  space.kept.packs = 4000;  // the limits allow 256 · 4
  ASSERT_EQ(coarse_candidates(space).size(), 1u);
  EXPECT_EQ(coarse_candidates(space).front().cut.fluid.packs, 4000);
  space.granules = 300;
  EXPECT_EQ(coarse_candidates(space).front().cut.fluid.packs, 300);
}

TEST(Candidates, WhatIsKeptToAValueIsNotSearched) {
  CandidateSpace space{.stages = 4, .granules = 5000, .sequences = 1000, .longest = 10};
  space.kept = {.taper = 0.5, .short_first = 3};
  for (const Candidate& c : coarse_candidates(space)) EXPECT_EQ(c.cut.short_first, 3);
  EXPECT_EQ(coarse_candidates(space).back().cut.fluid.taper, 0.5);
  EXPECT_EQ(free_directions(space.kept),
            (std::vector{SearchDirection::kFill, SearchDirection::kPacks, SearchDirection::kCuts,
                         SearchDirection::kSplit}));
  EXPECT_EQ(
      free_directions({.packs = 7}),
      (std::vector{SearchDirection::kFill, SearchDirection::kTaper, SearchDirection::kShortAhead,
                   SearchDirection::kCuts, SearchDirection::kSplit}));
  EXPECT_EQ(free_directions({.baselines = false}),
            std::vector(kSearchDirections.begin(), kSearchDirections.end()));
}

// Around a ring unequal MicroPacks wait for each other.
TEST(Candidates, BeginWithoutTaperAroundARingUnlessItIsAskedFor) {
  CandidateSpace space{.stages = 4, .granules = 5000, .sequences = 1000, .longest = 10};
  EXPECT_EQ(coarse_candidates(space).back().cut.fluid.taper_front, 2 * 4);
  space.ring = true;
  EXPECT_EQ(coarse_candidates(space).back().cut.fluid.taper_front, 0);
  space.kept.taper = 0.5;
  EXPECT_EQ(coarse_candidates(space).back().cut.fluid.taper_front, 2 * 4);
}

TEST(Candidates, TapersDoNotOverlap) {
  const CandidateSpace space{
      .stages = 4, .granules = 1 << 20, .sequences = 1000, .longest = 1 << 19};
  for (const Candidate& c : coarse_candidates(space))
    for (const SearchDirection direction : kSearchDirections)
      for (const Candidate& n : neighbours(c, space, direction))
        EXPECT_LE(n.cut.fluid.taper_front + n.cut.fluid.taper_back, n.cut.fluid.packs);
}

}  // namespace
}  // namespace slimpack
