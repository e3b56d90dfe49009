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
  for (const UnitCutOptions& c : coarse_candidates(space)) {
    EXPECT_LE(c.fluid.packs, 3);
    EXPECT_EQ(c.short_first, 0);
    for (int direction = 0; direction < kDirections; ++direction)
      for (const UnitCutOptions& n : neighbours(c, space, direction)) {
        EXPECT_GE(n.fluid.packs, 1);
        EXPECT_LE(n.fluid.packs, 3);
        EXPECT_EQ(n.short_first, 0);
      }
  }
}

TEST(Candidates, DoubleFromOnePackPerStageToTheMost) {
  const CandidateSpace space{
      .stages = 4, .granules = 1 << 20, .sequences = 1000, .longest = 1 << 19};
  const auto candidates = coarse_candidates(space);
  EXPECT_EQ(candidates.front().fluid.packs, 4);
  EXPECT_EQ(candidates.back().fluid.packs, 4 * kMostPacksPerStage);
  for (std::size_t i = 1; i < candidates.size(); ++i)
    EXPECT_EQ(candidates[i].fluid.packs, 2 * candidates[i - 1].fluid.packs);
}

TEST(Candidates, TapersDoNotOverlap) {
  const CandidateSpace space{
      .stages = 4, .granules = 1 << 20, .sequences = 1000, .longest = 1 << 19};
  for (const UnitCutOptions& c : coarse_candidates(space))
    for (int direction = 0; direction < kDirections; ++direction)
      for (const UnitCutOptions& n : neighbours(c, space, direction))
        EXPECT_LE(n.fluid.taper_front + n.fluid.taper_back, n.fluid.packs);
}

}  // namespace
}  // namespace slimpack
