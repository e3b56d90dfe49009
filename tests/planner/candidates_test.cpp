#include "slimpack/planner/candidates.h"

#include <gtest/gtest.h>

namespace slimpack {
namespace {

TEST(Candidates, GranulesRoundUpEachSequence) {
  // 1 + 1 + 2 pieces of at most 128.
  EXPECT_EQ(total_granules({Tokens(1), Tokens(128), Tokens(129)}, Tokens(128)), 4);
}

TEST(Candidates, NeverAskForMorePacksThanThereArePieces) {
  for (const Candidate& c : plan_candidates({Tokens(300)}, 4, Tokens(128))) {
    EXPECT_LE(c.cut.packs, 3);
    EXPECT_EQ(c.short_first, 0);
  }
}

TEST(Candidates, RangeFromOnePackPerStageToTheMost) {
  const SequenceLengths lengths(1000, Tokens(1000));
  const auto candidates = plan_candidates(lengths, 4, Tokens(128));
  EXPECT_EQ(candidates.front().cut.packs, 4);
  EXPECT_EQ(candidates.back().cut.packs, 4 * kMostPacksPerStage);
  for (const Candidate& c : candidates) EXPECT_LE(2 * c.cut.taper_packs, c.cut.packs);
}

}  // namespace
}  // namespace slimpack
